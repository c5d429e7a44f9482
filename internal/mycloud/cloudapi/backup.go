package cloudapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Backup writes a backup of the cloud's state. What was written before an error is not one.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	token, err := c.bearer("")
	if err != nil {
		return err
	}
	r := &request{method: http.MethodGet, path: cloudv1.BackupPath}
	id := rand.Text()
	resp, err := c.send(ctx, r, nil, id, token, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return receive(r, resp, id, c.o.Clock.Now(), nil)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("%s: read response: %w", r, err)
	}
	return nil
}
