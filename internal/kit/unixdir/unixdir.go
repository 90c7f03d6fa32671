// Package unixdir opens Unix sockets in folders whose path is too long for a
// socket address (108 bytes), by going through the folder's descriptor.
package unixdir

import (
	"context"
	"fmt"
	"net"
	"os"
)

// Listen makes the socket name in dir. Closing the listener leaves the socket's file.
func Listen(dir, name string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: through(d, name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// Dial connects to the socket name in dir.
func Dial(ctx context.Context, dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", through(d, name))
}

func through(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}
