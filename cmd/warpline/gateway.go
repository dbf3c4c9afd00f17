package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// gatewayCmd is the door alone.
type gatewayCmd struct {
	apart
	Listen     string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"${gateway_listen}"`
	GRPCListen string `name:"grpc-listen" placeholder:"HOST:PORT" help:"${gateway_grpc_listen}"`
	PathPrefix string `placeholder:"/PREFIX" help:"Serve the HTTP paths below this prefix too."`
	TLSCert    string `name:"tls-cert" placeholder:"FILE" help:"Certificate of --listen and --grpc-listen, PEM."`
	TLSKey     string `name:"tls-key" placeholder:"FILE" help:"Its private key, PEM."`
	ClientCA   string `name:"grpc-client-ca" placeholder:"FILE" help:"${grpc_client_ca}"`
	DevKey     string `secret:"" placeholder:"KEY" help:"A fixed key for tenant \"dev\", for trying things out on loopback."`
	SpoolDir   string `placeholder:"DIR" help:"Folder for bodies that are being received; by default one below the system's temporary folder."`
	SpoolMax   size   `default:"2GiB" help:"Most that they may take together."`
	limitFlags
}

func (c *gatewayCmd) check(p *program) error {
	s := p.Settings
	if err := c.apart.check(s); err != nil {
		return err
	}
	if err := checkAddr(s, "listen", c.Listen); err != nil {
		return err
	}
	if c.GRPCListen != "" {
		if err := checkAddr(s, "grpc-listen", c.GRPCListen); err != nil {
			return err
		}
	}
	for _, l := range []struct{ flag, addr string }{{"listen", c.Listen}, {"grpc-listen", c.GRPCListen}} {
		if c.DevKey != "" && l.addr != "" && !loopback(l.addr) {
			return fmt.Errorf("%s is for loopback only, and %s is %s: listen on 127.0.0.1, or make a real key with \"warpline key create\"",
				s.name("dev-key"), s.name(l.flag), l.addr)
		}
	}
	return errors.Join(checkTLS(s, c.TLSCert, c.TLSKey), checkClientCA(s, c.ClientCA, c.TLSCert), c.limitFlags.check(s))
}

// Run serves until a signal, then lets requests under way finish.
func (c *gatewayCmd) Run(ctx context.Context, p *program) error {
	return c.role(p).RunGateway(ctx, p.Hard, service.GatewayConfig{
		Listen: c.Listen, GRPCListen: c.GRPCListen, PathPrefix: c.PathPrefix, TLSCert: c.TLSCert, TLSKey: c.TLSKey,
		GRPCClientCA: c.ClientCA, DevKey: c.DevKey, Limits: c.limits(),
		SpoolDir: c.SpoolDir, SpoolMax: int64(c.SpoolMax),
	})
}
