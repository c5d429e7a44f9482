package announce

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"
)

// VRRPOptions configures VRRP. One of the edges, the one with the highest priority at first, has all addresses.
type VRRPOptions struct {
	// Dir is the directory for the configuration of keepalived.
	Dir string
	// Interface is the network that the clients, or their router, are on.
	Interface string
	// RouterID is the virtual router id, 1 to 255, the same on all edges; Priority is 1 to 254.
	RouterID, Priority int
	// Source is the machine's own address on the interface, and Peers are those of the other edges.
	Source netip.Addr
	Peers  []netip.Addr
}

// VRRP has the addresses on one of several edges, through keepalived. It adds them to the interface itself: they must
// not be added by other means.
type VRRP struct {
	options VRRPOptions
	config  configFile
	pidFile string

	mu sync.Mutex
}

// NewVRRP returns a VRRP. It does nothing yet.
func NewVRRP(o VRRPOptions) *VRRP {
	return &VRRP{
		options: o, pidFile: filepath.Join(o.Dir, "keepalived.pid"),
		config: configFile{path: filepath.Join(o.Dir, "keepalived.conf"), check: []string{"keepalived", "-t", "-f"}},
	}
}

// Settle returns how long it may take another edge to get the addresses.
func (v *VRRP) Settle() time.Duration { return 2 * time.Second }

// Announce makes the edge take part in having exactly these addresses. Without addresses, it leaves them to the others.
func (v *VRRP) Announce(ctx context.Context, addresses []netip.Addr) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	content, err := v.render(addresses)
	if err != nil {
		return err
	}
	// The edge has the addresses of all load balancers on its loopback interface, too. Only the one that has them on this
	// interface must answer for them.
	ignore := "/proc/sys/net/ipv4/conf/" + v.options.Interface + "/arp_ignore"
	if err := os.WriteFile(ignore, []byte("1"), 0); err != nil {
		return fmt.Errorf("leave address resolution to the edge that has the addresses: %w", err)
	}
	if err := v.config.write(ctx, content); err != nil {
		return err
	}
	pid := v.running()
	if pid == 0 {
		// It moves to the background by itself.
		_, err := run(ctx, "keepalived", "-P", "-f", v.config.path, "-p", v.pidFile,
			"-r", filepath.Join(v.options.Dir, "keepalived-vrrp.pid"))
		if err != nil {
			return fmt.Errorf("start keepalived: %w", err)
		}
		v.config.loaded = true
		return nil
	}
	if v.config.loaded {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		return fmt.Errorf("load configuration of keepalived: %w", err)
	}
	v.config.loaded = true
	return nil
}

// running returns the process id of keepalived, or 0.
func (v *VRRP) running() int {
	data, err := os.ReadFile(v.pidFile)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	// The number may have gone to another process.
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(command), v.config.path) {
		return 0
	}
	return pid
}

// The addresses are excluded from the advertisements, which would be dropped while edges differ in what they have. They
// must have one address, so there is one that never changes and that no packet reaches. Without a router_id, keepalived
// asks DNS for the name of the machine, also for a check: while DNS does not answer, that takes ten seconds.
var keepalivedConfig = template.Must(template.New("keepalived.conf").Parse(`# Written by mycloud edge; do not edit.
global_defs {
    router_id mycloud-edge
    vrrp_garp_master_delay 1
    vrrp_garp_master_repeat 3
    vrrp_garp_master_refresh 10
}
{{- if .Addresses}}
vrrp_instance edges {
    state BACKUP
    nopreempt
    version 3
    interface {{.Interface}}
    virtual_router_id {{.RouterID}}
    priority {{.Priority}}
    advert_int 0.2
{{- if .Peers}}
    unicast_src_ip {{.Source}}
    unicast_peer {
{{- range .Peers}}
        {{.}}
{{- end}}
    }
{{- end}}
    virtual_ipaddress {
        169.254.255.{{.RouterID}}/32 dev lo scope host
    }
    virtual_ipaddress_excluded {
{{- range .Addresses}}
        {{.}}/{{.BitLen}} dev {{$.Interface}}
{{- end}}
    }
}
{{- end}}
`))

func (v *VRRP) render(addresses []netip.Addr) (string, error) {
	data := struct {
		VRRPOptions
		Addresses []netip.Addr
	}{v.options, append(sorted(addresses, false), sorted(addresses, true)...)}
	var config strings.Builder
	if err := keepalivedConfig.Execute(&config, data); err != nil {
		return "", fmt.Errorf("render keepalived.conf: %w", err)
	}
	return config.String(), nil
}
