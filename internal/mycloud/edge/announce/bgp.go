package announce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"quaymaster.dev/internal/mycloud/edge/program"
)

// BGPOptions configures BGP. Sessions to IPv4 peers carry IPv4 addresses, and those to IPv6 peers IPv6 addresses.
type BGPOptions struct {
	// Dir is the directory for the configuration and the socket of bird.
	Dir string
	// RouterID is an IPv4 address of the machine, LocalAS its autonomous system.
	RouterID netip.Addr
	LocalAS  uint32
	// Sources are the addresses that sessions come from, at most one of each family. Without one, bird selects it.
	Sources []netip.Addr
	Peers   []Peer
}

// Peer is a router that is directly connected.
type Peer struct {
	Address netip.Addr
	AS      uint32
	// PasswordFile has the password of the session (RFC 2385); empty for none.
	PasswordFile string
}

// BGP announces addresses to routers by BGP, with BFD, through bird.
type BGP struct {
	options BGPOptions
	config  configFile
	socket  string

	mu sync.Mutex
}

// NewBGP returns a BGP. It does nothing yet.
func NewBGP(o BGPOptions) *BGP {
	return &BGP{
		options: o, socket: filepath.Join(o.Dir, "bird.ctl"),
		config: configFile{path: filepath.Join(o.Dir, "bird.conf"), check: []string{"bird", "-p", "-c"}},
	}
}

// Settle returns how long routers may need to stop sending traffic.
func (b *BGP) Settle() time.Duration { return 2 * time.Second }

// Announce announces exactly these addresses. It starts bird if it does not run.
func (b *BGP) Announce(ctx context.Context, addresses []netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, err := b.render(addresses)
	if err != nil {
		return err
	}
	if err := b.config.write(ctx, content); err != nil {
		return err
	}
	_, err = run(ctx, "birdc", "-s", b.socket, "show", "status")
	if errors.Is(err, program.ErrLimit) || ctx.Err() != nil {
		// Bird may run, and go on with what it has.
		return fmt.Errorf("ask bird: %w", err)
	}
	if err != nil {
		_, err := run(ctx, "bird", "-c", b.config.path, "-s", b.socket, "-P", filepath.Join(b.options.Dir, "bird.pid"))
		if err != nil {
			return fmt.Errorf("start bird: %w", err)
		}
		b.config.loaded = true
		return nil
	}
	if b.config.loaded {
		return nil
	}
	out, err := run(ctx, "birdc", "-s", b.socket, "configure")
	if err != nil {
		return fmt.Errorf("load configuration of bird: %w", err)
	}
	// birdc succeeds whatever bird answers.
	if !strings.Contains(out, "Reconfigur") {
		return fmt.Errorf("load configuration of bird: %s", out)
	}
	b.config.loaded = true
	return nil
}

var birdConfig = template.Must(template.New("bird.conf").Parse(`# Written by mycloud edge; do not edit.
router id {{.RouterID}};
log syslog { info, remote, warning, error, auth, fatal, bug };
protocol device { }
protocol bfd { }
protocol static addresses4 {
	ipv4;
{{- range .Addresses4}}
	route {{.}}/32 blackhole;
{{- end}}
}
protocol static addresses6 {
	ipv6;
{{- range .Addresses6}}
	route {{.}}/128 blackhole;
{{- end}}
}
{{- range .Peers}}
protocol bgp {{.Name}} {
	local {{with .Source}}{{.}} {{end}}as {{$.LocalAS}};
	neighbor {{.Address}} as {{.AS}};
{{- with .Password}}
	password "{{.}}";
{{- end}}
	bfd { interval 200 ms; multiplier 3; };
	hold time 9;
	connect delay time 1;
	connect retry time 2;
	error wait time 1, 2;
	{{if .Address.Is6}}ipv6{{else}}ipv4{{end}} { import none; export where source = RTS_STATIC; next hop self; };
}
{{- end}}
`))

type birdPeer struct {
	Peer
	Name, Source, Password string
}

// render returns the configuration of bird. The addresses are routes that lead nowhere, since bird does not write them
// to the kernel.
func (b *BGP) render(addresses []netip.Addr) (string, error) {
	data := struct {
		BGPOptions
		Addresses4, Addresses6 []netip.Addr
		Peers                  []birdPeer
	}{BGPOptions: b.options, Addresses4: sorted(addresses, false), Addresses6: sorted(addresses, true)}
	for i, p := range b.options.Peers {
		peer := birdPeer{Peer: p, Name: fmt.Sprintf("peer%d", i+1)}
		for _, source := range b.options.Sources {
			if source.Is6() == p.Address.Is6() {
				peer.Source = source.String()
			}
		}
		if p.PasswordFile != "" {
			password, err := os.ReadFile(p.PasswordFile)
			if err != nil {
				return "", fmt.Errorf("read password of BGP peer %s: %w", p.Address, err)
			}
			peer.Password = strings.TrimSpace(string(password))
			if strings.ContainsAny(peer.Password, "\"\n") {
				return "", fmt.Errorf("the password of BGP peer %s must be one line without quotes", p.Address)
			}
		}
		data.Peers = append(data.Peers, peer)
	}
	var config strings.Builder
	if err := birdConfig.Execute(&config, data); err != nil {
		return "", fmt.Errorf("render bird.conf: %w", err)
	}
	return config.String(), nil
}
