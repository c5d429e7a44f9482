package cloudapi

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
)

// TestSilentConnectionsEnd: the kernel ends connections on which nothing comes back, long before a held request would
// time out.
func TestSilentConnectionsEnd(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	transport, err := newTransport(tlsfiles.Files{}, false)
	if err != nil {
		t.Fatal(err)
	}
	option := map[int]int{syscall.TCP_KEEPIDLE: 0, syscall.TCP_KEEPINTVL: 0, syscall.TCP_KEEPCNT: 0}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		raw, err := info.Conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			for name := range option {
				if option[name], err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, name); err != nil {
					t.Error(err)
				}
			}
		}); err != nil {
			t.Error(err)
		}
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	end := time.Duration(option[syscall.TCP_KEEPIDLE]+option[syscall.TCP_KEEPINTVL]*option[syscall.TCP_KEEPCNT]) * time.Second
	if end == 0 || end > 30*time.Second {
		t.Errorf("connections on which nothing comes back end after %v; want at most 30s", end)
	}
}
