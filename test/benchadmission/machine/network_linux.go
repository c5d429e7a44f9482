package machine

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Isolated returns a command that runs in a network namespace of its own: no other process can connect to its servers,
// and its counters count nothing else. Without the rights of root it also needs a user namespace. If the machine allows
// neither, Start fails. The end of the context terminates it.
func Isolated(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// Connect brings up the loopback interface of a new network namespace and makes all addresses of a range local, as
// 127.0.0.0/8 is: packets take the shortest way, while API servers treat the addresses as those of another machine.
func Connect(addresses netip.Prefix) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("configure the network: %w", err)
	}
	defer unix.Close(socket) //nolint:errcheck // nothing was written
	set := func(name string, request uint, fill func(*unix.Ifreq) error) error {
		ifreq, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := fill(ifreq); err != nil {
			return err
		}
		return unix.IoctlIfreq(socket, request, ifreq)
	}
	mask := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if mask, err := mask.Prefix(addresses.Bits()); err == nil {
		return connect(set, addresses.Addr(), mask.Addr())
	}
	return fmt.Errorf("configure the network: %s is not an IPv4 range", addresses)
}

func connect(set func(string, uint, func(*unix.Ifreq) error) error, address, mask netip.Addr) error {
	up := func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	}
	ip := func(a netip.Addr) func(*unix.Ifreq) error {
		return func(r *unix.Ifreq) error { return r.SetInet4Addr(a.AsSlice()) }
	}
	for _, step := range []struct {
		name    string
		request uint
		fill    func(*unix.Ifreq) error
	}{
		{"lo", unix.SIOCSIFFLAGS, up},
		{"lo:1", unix.SIOCSIFADDR, ip(address)},
		{"lo:1", unix.SIOCSIFNETMASK, ip(mask)},
	} {
		if err := set(step.name, step.request, step.fill); err != nil {
			return fmt.Errorf("configure the network: interface %s: %w", step.name, err)
		}
	}
	return nil
}
