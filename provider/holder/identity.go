package holder

import (
	"context"
	"fmt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

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
