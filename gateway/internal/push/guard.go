package push

import (
	"fmt"
	"net/netip"
	"syscall"
)

// What is never dialled, whatever is allowed: addresses at which clouds tell secrets to whoever asks from the
// machine itself, and what is no single host.
var never = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address, where clouds keep metadata"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "an address where a cloud keeps metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "an address where a cloud keeps metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "an address where a cloud keeps metadata"},
	{netip.MustParsePrefix("192.0.0.0/24"), "an address of protocol assignments"},
}

// What is dialled only where private addresses are allowed.
var private = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address behind carrier-grade NAT"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "an address of 6to4 relays"},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
	{netip.MustParsePrefix("5f00::/16"), "an address of segment routing"},
	{netip.MustParsePrefix("100::/64"), "a discarding address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an address of a local translation"},
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96") // deprecated; ::1 and :: are found before
)

// CheckAddr says why an address must not be dialled; nil if it may be. An IPv4 address inside of an IPv6 one
// (mapped, NAT64, 6to4, Teredo, compatible) is judged as what it leads to.
func CheckAddr(a netip.Addr, allowPrivate bool) error {
	a = a.WithZone("").Unmap()
	if !a.IsValid() {
		return fmt.Errorf("it is no address")
	}
	for _, n := range never {
		if n.prefix.Contains(a) {
			return fmt.Errorf("%s is %s, which no webhook may reach", a, n.what)
		}
	}
	for _, p := range private {
		if !p.prefix.Contains(a) {
			continue
		}
		if allowPrivate {
			return nil
		}
		return fmt.Errorf("%s is %s; a webhook needs allow_private for it, and the gateway --webhooks-allow-private", a, p.what)
	}
	if inner, ok := embedded(a); ok {
		if err := CheckAddr(inner, allowPrivate); err != nil {
			return fmt.Errorf("%s leads to %w", a, err)
		}
	}
	return nil
}

// embedded is the IPv4 address that an IPv6 address leads to.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	v4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[i+1], b[i+2], b[i+3]}) }
	switch {
	case nat64.Contains(a), compatible.Contains(a):
		return v4(12), true
	case sixToFour.Contains(a):
		return v4(2), true
	case teredo.Contains(a): // the client's address, with its bits turned
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

// refusedError is an address that was not dialled.
type refusedError struct{ reason error }

func (e *refusedError) Error() string { return "not sent: " + e.reason.Error() }
func (e *refusedError) Unwrap() error { return e.reason }

// guard is a net.Dialer's Control: it sees the address that is about to be connected to, after the name was
// resolved, so a name that means something else the second time changes nothing.
func guard(allowPrivate bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return &refusedError{fmt.Errorf("%q is no address", address)}
		}
		if err := CheckAddr(ap.Addr(), allowPrivate); err != nil {
			return &refusedError{err}
		}
		return nil
	}
}
