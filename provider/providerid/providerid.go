// Package providerid formats and parses a Node's spec.providerID: mycloud://<instance-id>.
package providerid

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// prefix is stored in Nodes, where it is immutable: it must not change.
const prefix = "mycloud://"

// ErrForeign marks the provider ID of a machine of another cloud.
var ErrForeign = errors.New("the machine belongs to another cloud")

var instanceID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Format returns the provider ID of an instance.
func Format(instance string) string { return prefix + instance }

// Parse returns the id of the instance in a provider ID. The error wraps ErrForeign if the provider ID is of another
// cloud.
func Parse(providerID string) (string, error) {
	instance, ours := strings.CutPrefix(providerID, prefix)
	if !ours {
		return "", fmt.Errorf("provider ID %q: must begin with %s: %w", providerID, prefix, ErrForeign)
	}
	if !instanceID.MatchString(instance) {
		return "", fmt.Errorf("provider ID %q: must be %s<instance-id>", providerID, prefix)
	}
	return instance, nil
}
