package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// keySpace separates our idempotency keys from those of others. Changing it would let a create be repeated after an
// upgrade.
var keySpace = uuid.MustParse("6f1d6a0e-0b0c-4b8e-9d53-2f2f5ab9a7c1")

// maxGenerations limits how often an object can be deleted or given away and created again while the cloud remembers
// idempotency keys.
const maxGenerations = 32

// ErrNotOurs is returned for an object that no longer has our tags: it was released, or another owner has taken it.
var ErrNotOurs = errors.New("the object no longer belongs to this cluster")

// Create creates an object that the cloud did not have a moment ago exactly once, even if the process crashes: the
// idempotency key is derived from identity, which names the object. After a crash, the same key leads to the object
// that the cloud has already created. If that object was deleted or given away since, or the key was used for another
// one, the next generation of the key is tried. confirm reads the created object and fails with ErrNotOurs if it does
// not have our tags.
func Create[T any](identity []string, create func(key string) (T, error), confirm func(T) (T, error)) (T, error) {
	var none T
	for generation := range maxGenerations {
		made, err := create(key(identity, generation))
		if cloudapi.HasCode(err, cloudv1.CodeIdempotencyKeyReused) {
			continue
		}
		if err != nil {
			return none, err
		}
		confirmed, err := confirm(made)
		if cloudapi.IsAbsent(err) || errors.Is(err, ErrNotOurs) {
			continue
		}
		if err != nil {
			return none, fmt.Errorf("confirm: %w", err)
		}
		return confirmed, nil
	}
	return none, fmt.Errorf("created and lost %d times while the cloud remembers idempotency keys", maxGenerations)
}

func key(identity []string, generation int) string {
	return uuid.NewSHA1(keySpace, []byte(strings.Join(identity, "\x00")+"\x00"+strconv.Itoa(generation))).String()
}

// suffixLength is the number of characters of the hash in the suffix of a name.
const suffixLength = 8

// UniqueName returns the name to use if the plain one is taken, with a suffix that follows from the identity.
func UniqueName(plain string, identity ...string) string {
	hash := sha256.Sum256([]byte(strings.Join(identity, "/")))
	return plain + "-" + hex.EncodeToString(hash[:])[:suffixLength]
}
