package haproxy

import "golang.org/x/sys/unix"

// bindAnywhere allows a socket to be bound to an address that arrives at this machine later.
func bindAnywhere(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, 1); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
}
