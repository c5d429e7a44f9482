package ownership

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

// keySpace separates our idempotency keys from those of others. Changing it would let a create be repeated after an
// upgrade.
var keySpace = uuid.MustParse("6f1d6a0e-0b0c-4b8e-9d53-2f2f5ab9a7c1")

// maxGenerations is how often an object can be deleted or given away and created again within the time for which the
// cloud remembers keys.
const maxGenerations = 32

// ErrNotOurs says that an object bears no tags of ours any more: it was released, or someone else has taken it.
var ErrNotOurs = errors.New("it is not ours any more")

// Create creates an object that the cloud did not have a moment ago, once, whatever crashes in between: the idempotency
// key follows from identity, which names the object. A crash after the cloud's deed leads to the same key and so to the
// same object; but if that one has been deleted or given away since, or was another, the next generation of the key is
// tried. confirm reads what was made, and fails with ErrNotOurs if that does not bear our tags.
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
	return none, fmt.Errorf("created and lost %d times within the cloud's memory of keys", maxGenerations)
}

func key(identity []string, generation int) string {
	return uuid.NewSHA1(keySpace, []byte(strings.Join(identity, "\x00")+"\x00"+strconv.Itoa(generation))).String()
}
