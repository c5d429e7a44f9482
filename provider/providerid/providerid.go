// Package providerid is the format of a Node's spec.providerID: mycloud://<instance-id>.
package providerid

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// prefix is stored in Nodes and cannot be changed there: it must stay.
const prefix = "mycloud://"

// ErrForeign marks the provider ID of a machine that belongs to another cloud.
var ErrForeign = errors.New("the machine is of another cloud")

var instanceID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Format is the provider ID of an instance.
func Format(instance string) string { return prefix + instance }

// Parse is the id of the instance that a provider ID names. The error wraps ErrForeign where the provider ID is of another
// cloud.
func Parse(providerID string) (string, error) {
	instance, ours := strings.CutPrefix(providerID, prefix)
	if !ours {
		return "", fmt.Errorf("provider ID %q does not begin with %s: %w", providerID, prefix, ErrForeign)
	}
	if !instanceID.MatchString(instance) {
		return "", fmt.Errorf("provider ID %q: must be %s<instance-id>", providerID, prefix)
	}
	return instance, nil
}
