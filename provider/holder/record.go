package holder

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// ClaimedBy names this process in a record. agent is the program with its version.
func ClaimedBy(agent string) string {
	machine, _ := os.Hostname() // empty with an error
	return cmp.Or(machine, "unknown machine") + " (" + agent + ")"
}

// Holds reports whether the record, which may be nil, already says what a claim would write.
func Holds(record *cloudv1.ClusterHolder, s cloudv1.ClusterHolderSpec) bool {
	return record != nil && record.Name == s.Name && slices.Equal(record.Fingerprints, s.Fingerprints)
}

// Read reads the record of a cluster UID, which is nil if there is none.
func Read(ctx context.Context, records Records, uid string) (*cloudv1.ClusterHolder, error) {
	held, err := records.Holder(ctx, uid)
	if cloudapi.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the holder of cluster UID %s: %w", uid, err)
	}
	return held, nil
}

// Find is Read for commands, which also work with clouds that keep no such records; kept is false for these.
func Find(ctx context.Context, records Records, uid string) (held *cloudv1.ClusterHolder, kept bool, err error) {
	held, err = Read(ctx, records, uid)
	if cloudapi.HasCode(err, cloudv1.CodeUnsupported) {
		return nil, false, nil
	}
	return held, true, err
}

// Claim writes the record of a cluster UID in place of the one that was read, which may be nil. It fails if there is
// another one by now.
func Claim(
	ctx context.Context, records Records, was *cloudv1.ClusterHolder, uid string, s cloudv1.ClusterHolderSpec,
) error {
	var o cloudapi.WriteOptions
	if was != nil {
		o.IfMatch = was.Revision
	}
	if _, err := records.ClaimHolder(ctx, uid, s, o); err != nil {
		return fmt.Errorf("claim cluster UID %s: %w", uid, err)
	}
	return nil
}

// Identified is a client whose calls fail unless the cloud is the one that it expects.
type Identified interface {
	// Identity reads what identifies the cloud.
	Identity(ctx context.Context) (*cloudv1.Meta, error)
	// Expect makes calls fail unless the cloud has that identity, and a state that includes the revision.
	Expect(id, revision string)
}

// Memory is where a cluster remembers its cloud.
type Memory interface {
	// CloudID returns the id of the cluster's cloud, which is empty at first.
	CloudID(ctx context.Context) (string, error)
	// Remember stores it.
	Remember(ctx context.Context, cloudID string) error
}

// Identify is cloudapi.Options.Identify for commands, which do not follow the cloud: it makes sure that the cloud is the
// one that the cluster remembers, if it does.
func Identify(ctx context.Context, cloud Identified, memory Memory) error {
	meta, _, err := identity(ctx, cloud, memory)
	if err == nil {
		cloud.Expect(meta.ID, meta.Revision)
	}
	return err
}

// identity returns what identifies the cloud, and the id that the cluster remembers, which may be empty. It fails if they
// differ.
func identity(ctx context.Context, cloud Identified, memory Memory) (meta *cloudv1.Meta, known string, err error) {
	if meta, err = cloud.Identity(cloudapi.WithClass(ctx, cloudapi.Safety)); err != nil {
		return nil, "", fmt.Errorf("identify the cloud: %w", err)
	}
	if known, err = memory.CloudID(ctx); err != nil {
		return nil, "", fmt.Errorf("%w: %w", cloudapi.ErrUnidentified, err)
	}
	if known != "" && known != meta.ID {
		return nil, "", otherCloud(meta.ID, known)
	}
	return meta, known, nil
}

func remember(ctx context.Context, memory Memory, id string) error {
	if err := memory.Remember(ctx, id); err != nil {
		return fmt.Errorf("%w: %w", cloudapi.ErrUnidentified, err)
	}
	return nil
}
