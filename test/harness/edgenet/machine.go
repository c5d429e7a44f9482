//go:build linux

package edgenet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// The names of the interfaces of machines.
const (
	// Outer is connected to the outer switch, where the clients are.
	Outer = "ext"
	// Inner is connected to the inner switch, where the nodes are.
	Inner = "int"
)

// Machine is a network namespace with interfaces that are connected to the switches. Its addresses are invalid where it
// is not connected.
type Machine struct {
	Name           string
	Outer4, Outer6 netip.Addr
	Inner4, Inner6 netip.Addr
	// Links configures interfaces, addresses, routes and rules of the machine.
	Links *netlink.Handle

	namespace netns.NsHandle
	// ports are the links of the switches that lead to the machine.
	ports    []netlink.Link
	switches *Machine
}

// newMachine creates a namespace, in which only the loopback interface is up.
func newMachine(name string) (*Machine, error) {
	m := &Machine{Name: name}
	err := onThread(func() error {
		var err error
		m.namespace, err = netns.New()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create namespace of %s: %w", name, err)
	}
	m.Links, err = netlink.NewHandleAt(m.namespace)
	if err != nil {
		return nil, fmt.Errorf("open netlink of %s: %w", name, err)
	}
	lo, err := m.Links.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find loopback of %s: %w", name, err)
	}
	// Without duplicate address detection, IPv6 works at once.
	for _, name := range []string{"all", "default"} {
		if err := m.Sysctl("net.ipv6.conf."+name+".accept_dad", "0"); err != nil {
			return nil, fmt.Errorf("set up %s: %w", name, err)
		}
	}
	return m, m.Links.LinkSetUp(lo)
}

// Open returns the machine of a namespace that something else made, such as /run/netns/NAME. The caller closes it. It
// has no addresses, and cannot be cut.
func Open(name, path string) (*Machine, error) {
	m := &Machine{Name: name}
	var err error
	if m.namespace, err = netns.GetFromPath(path); err != nil {
		return nil, fmt.Errorf("open namespace of %s: %w", name, err)
	}
	if m.Links, err = netlink.NewHandleAt(m.namespace); err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink of %s: %w", name, err), m.namespace.Close())
	}
	return m, nil
}

// Close releases the machine; its namespace ends with what runs in it, unless it has a name.
func (m *Machine) Close() {
	m.Links.Close()
	_ = m.namespace.Close()
}

// Path returns the path of the namespace, for nsenter --net=PATH, while this process runs.
func (m *Machine) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(m.namespace))
}

// Do runs f on the machine. Sockets that f itself opens, and processes that it starts, stay there; goroutines that f
// starts are not on the machine.
func (m *Machine) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(m.namespace); err != nil {
			return fmt.Errorf("enter namespace of %s: %w", m.Name, err)
		}
		return f()
	})
}

// onThread runs f in a goroutine that has a thread of its own, and moves the thread back to the namespace of the
// process. A thread that cannot be moved back ends.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = home.Close() }()
		err = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// Start starts the command on the machine. The caller waits for it.
func (m *Machine) Start(cmd *exec.Cmd) error {
	return m.Do(cmd.Start)
}

// Run runs a program on the machine, and returns what it prints to standard output and standard error.
func (m *Machine) Run(ctx context.Context, name string, args ...string) (string, error) {
	var out strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := m.Start(cmd); err != nil {
		return "", fmt.Errorf("start %s on %s: %w", name, m.Name, err)
	}
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s on %s: %w: %s", name, m.Name, err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// Dial connects from the machine to an address, which must not have a host name. It can be the DialContext of an
// http.Transport.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return m.DialFrom(ctx, nil, network, address)
}

// DialFrom is like Dial with a local address, such as a *net.TCPAddr; nil leaves it to the kernel.
func (m *Machine) DialFrom(ctx context.Context, local net.Addr, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := m.Do(func() error {
		var err error
		conn, err = (&net.Dialer{LocalAddr: local}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens on the machine. The connections that the listener accepts are the machine's too.
func (m *Machine) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := m.Do(func() error {
		var err error
		listener, err = new(net.ListenConfig).Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// ListenPacket listens for packets on the machine.
func (m *Machine) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	var conn net.PacketConn
	err := m.Do(func() error {
		var err error
		conn, err = new(net.ListenConfig).ListenPacket(ctx, network, address)
		return err
	})
	return conn, err
}

// Sysctl sets a kernel setting of the machine's network, such as net.ipv4.ip_forward.
func (m *Machine) Sysctl(name, value string) error {
	// A name of an interface may have dots, but ours have none.
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	return m.Do(func() error { return os.WriteFile(path, []byte(value), 0) })
}

// Cut disconnects the machine from the switches, as if its power were gone. The machine itself sees nothing of it.
func (m *Machine) Cut() error {
	return m.eachPort((*netlink.Handle).LinkSetNoMaster)
}

// Restore connects the machine again.
func (m *Machine) Restore() error {
	return m.eachPort(func(links *netlink.Handle, port netlink.Link) error {
		return links.LinkSetMasterByIndex(port, port.Attrs().MasterIndex)
	})
}

func (m *Machine) eachPort(f func(*netlink.Handle, netlink.Link) error) error {
	for _, port := range m.ports {
		if err := f(m.switches.Links, port); err != nil {
			return fmt.Errorf("change port of %s: %w", m.Name, err)
		}
	}
	return nil
}
