package cloudapi

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// credentialsAge is how long credentials are used before their files are read again, so that a change is noticed before
// the cloud rejects the former ones.
const credentialsAge = 10 * time.Second

// TokenFile returns a token source that reads the file on every call.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		t := strings.TrimSpace(string(b))
		if t == "" {
			return "", fmt.Errorf("read token: %s is empty", path)
		}
		return t, nil
	}
}

// StaticToken returns a token source that always returns the same token.
func StaticToken(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

// bearer returns the token to use. After a 401, rejected is the token that the cloud rejected: the source is called
// again. It is also called again after some time; if it fails then, the former token is used.
func (c *Client) bearer(rejected string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.token != "" && c.token != rejected
	if known && c.o.Clock.Since(c.tokenRead) < credentialsAge {
		return c.token, nil
	}
	t, err := c.o.Token()
	switch {
	case err != nil && known:
		return c.token, nil
	case err != nil:
		return "", err
	}
	c.token, c.tokenRead = t, c.o.Clock.Now()
	return t, nil
}
