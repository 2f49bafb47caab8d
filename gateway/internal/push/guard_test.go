package push

import (
	"net/netip"
	"testing"
)

// Addresses with what may be done with them, by the registries of IANA and the pages of the clouds.
func TestWhichAddressesAreDialled(t *testing.T) {
	const (
		public = iota
		private
		never
	)
	tests := []struct {
		addr string
		want int
	}{
		{"93.184.216.34", public}, {"8.8.8.8", public}, {"172.32.0.1", public}, {"172.15.255.255", public}, {"100.128.0.1", public},
		{"192.167.255.255", public}, {"198.20.0.1", public}, {"2606:2800:220:1:248:1893:25c8:1946", public}, {"2620:0:2d0:200::7", public},
		{"127.0.0.1", private}, {"127.255.255.254", private}, {"::1", private}, {"10.1.2.3", private}, {"172.16.0.1", private},
		{"172.31.255.255", private}, {"192.168.1.1", private}, {"100.64.0.1", private}, {"100.127.255.255", private},
		{"fc00::1", private}, {"fd12:3456::1", private}, {"fec0::1", private}, {"198.18.0.1", private}, {"192.0.2.1", private},
		{"203.0.113.7", private}, {"2001:db8::1", private}, {"64:ff9b:1::1", private},
		{"0.0.0.0", never}, {"0.1.2.3", never}, {"::", never}, {"224.0.0.1", never}, {"239.255.255.255", never}, {"ff02::1", never},
		{"255.255.255.255", never}, {"240.0.0.1", never}, {"169.254.169.254", never}, {"169.254.170.2", never}, {"fe80::1", never},
		{"fe80::1%eth0", never}, {"fd00:ec2::254", never}, {"100.100.100.200", never}, {"168.63.129.16", never}, {"192.0.0.192", never},
		// IPv4 inside of IPv6: mapped, compatible, NAT64, 6to4, Teredo (the address with its bits turned).
		{"::ffff:127.0.0.1", private}, {"::ffff:169.254.169.254", never}, {"::ffff:8.8.8.8", public}, {"::10.0.0.1", private},
		{"64:ff9b::127.0.0.1", private}, {"64:ff9b::a9fe:a9fe", never}, {"64:ff9b::808:808", public},
		{"2002:7f00:1::1", private}, {"2002:a9fe:a9fe::1", never}, {"2002:808:808::1", public},
		{"2001:0:53aa:64c:0:0:80ff:fffe", private}, {"2001:0:53aa:64c:0:0:5601:5601", never}, {"2001:0:53aa:64c:0:0:f7f7:f7f7", public},
	}
	for _, tt := range tests {
		a := netip.MustParseAddr(tt.addr)
		if got := CheckAddr(a, false) == nil; got != (tt.want == public) {
			t.Errorf("%s: dialled %v", tt.addr, got)
		}
		if got := CheckAddr(a, true) == nil; got != (tt.want != never) {
			t.Errorf("%s: dialled %v where private addresses are allowed", tt.addr, got)
		}
	}
	if CheckAddr(netip.Addr{}, true) == nil {
		t.Error("no address is dialled")
	}
}
