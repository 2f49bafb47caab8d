// Package config fills a component's documented Config struct from flags and environment for the thin
// mains, and holds the one rule about addresses that all components share. It knows no component: the
// struct's kong tags (help, default, name) are the whole description of a flag.
package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/alecthomas/kong"
)

// EnvPrefix begins the name of every environment variable: the flag --http-listen is also
// SPLASHDAM_HTTP_LISTEN. A flag given on the command line wins over the environment.
const EnvPrefix = "SPLASHDAM"

// ErrHelp says that the usage was asked for and printed; a main then ends with status 0.
var ErrHelp = errors.New("help was printed")

// Parse fills into (a pointer to a struct with kong tags) from args, without the program's name, then
// from the environment, then from the defaults of the tags. Usage goes to out when it is asked for with
// --help, which ErrHelp reports. It never ends the process. It checks the form of values only; whether
// they make sense together is the Validate of the component.
func Parse(into any, name, description string, args []string, out io.Writer) error {
	helped := false
	parser, err := kong.New(into,
		kong.Name(name), kong.Description(description),
		kong.DefaultEnvars(EnvPrefix),
		kong.Writers(out, out),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(int) { helped = true }))
	if err != nil {
		return fmt.Errorf("config: the flags of %s: %w", name, err)
	}
	_, err = parser.Parse(args)
	if helped {
		return ErrHelp
	}
	if err != nil {
		return fmt.Errorf("%w (see %s --help)", err, name)
	}
	return nil
}

// IsLoopback says whether hostport ("127.0.0.1:80", "[::1]:80", "localhost:80") can be reached from this
// machine only. An empty host means every interface and so is not loopback, and neither is a name other
// than localhost: where a name leads is decided elsewhere and may change.
func IsLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// CheckListen reports what is wrong with an address that a component is to listen on, or nil. field is
// the name to complain about. This version has no TLS and no API keys between tiers, so an address that
// other machines can reach needs insecure, by which an operator says that the network is trusted.
func CheckListen(field, hostport string, insecure bool) error {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return fmt.Errorf("%s: %q is not host:port", field, hostport)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Errorf("%s: %q has no valid port", field, hostport)
	}
	if !insecure && !IsLoopback(hostport) {
		if host == "" {
			host = "every interface"
		}
		return fmt.Errorf("%s: %q is open to other machines (%s) and this version has no TLS; "+
			"use a loopback address, or say insecure if the network is trusted", field, hostport, host)
	}
	return nil
}
