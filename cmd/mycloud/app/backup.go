package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/durable"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
)

func newBackupCommand() *cobra.Command {
	var client clientOptions
	var from storeOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the state of a cloud while it runs",
		Long: "Writes a snapshot of the state to FILE, which it replaces: that of the control plane at the endpoint or, with --store,\n" +
			"of the servers that share it in etcd, which need not run. \"mycloud restore\" restores it.\n" +
			"The key that encrypts private keys of certificates is not part of it.",
		Example: "  mycloud backup /var/backups/mycloud.db\n  mycloud backup --store etcd://10.0.0.1:2379/mycloud /var/backups/mycloud.db",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return durable.Write(args[0], func(w io.Writer) error {
				if from.url != "" {
					return from.read(cmd.ErrOrStderr(), func(c *store.Copy) error { return c.Backup(w) })
				}
				return client.call(func(c *cloudapi.Client) error { return c.Backup(cmd.Context(), w) })
			})
		},
	}
	client.addFlags(cmd.Flags())
	from.addFlags(cmd.Flags())
	return cmd
}

func newRestoreCommand() *cobra.Command {
	var to storeOptions
	var dir string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the state of a cloud from a backup",
		Long: "Writes the state in FILE, which mycloud backup has written, to --data-dir or to --store, where there must be none.\n" +
			"Then start mycloud serve with the same flag. Clients and edges learn that newer revisions are lost.",
		Example: "  mycloud restore /var/backups/mycloud.db --data-dir /var/lib/mycloud\n" +
			"  mycloud restore /var/backups/mycloud.db --store etcd://10.0.0.1:2379/mycloud",
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (dir == "") == (to.url == "") {
				return command.Usagef("requires one of --data-dir and --store: where the state is restored")
			}
			backup, err := store.OpenBackup(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = backup.Close() }() // it was only read
			if dir != "" {
				return createState(dir, backup)
			}
			return to.write(cmd.Context(), backup)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of the cloud's state; created if it does not exist")
	to.addFlags(cmd.Flags())
	return cmd
}

func newMigrateCommand() *cobra.Command {
	var in storeOptions
	var dir string
	var back bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move the state of a cloud from a file to etcd, or back",
		Long: "Moves the state from --data-dir to --store or, with --back, from --store to --data-dir. The servers must be stopped.\n" +
			"Clients and edges go on without reading everything again. After a move to etcd, the file has the name " +
			server.StateFile + migrated + ".",
		Example: "  mycloud migrate --data-dir /var/lib/mycloud --store etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/mycloud",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" || in.url == "" {
				return command.Usagef("requires --data-dir and --store")
			}
			if back {
				return in.take(cmd.Context(), cmd.ErrOrStderr(), func(c *store.Copy) error { return createState(dir, c) })
			}
			path := filepath.Join(dir, server.StateFile)
			file, err := store.OpenBackup(path)
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }() // it was only read
			if err := in.write(cmd.Context(), file); err != nil {
				return err
			}
			// A server must not start with it by mistake.
			return errors.Join(os.Rename(path, path+migrated), durable.Sync(dir))
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of the state in a file (required)")
	cmd.Flags().BoolVar(&back, "back", false, "move the state from --store to --data-dir")
	in.addFlags(cmd.Flags())
	return cmd
}

// migrated is added to the name of a file whose state was moved.
const migrated = ".migrated"

// read calls use with a copy of the state in etcd.
func (o *storeOptions) read(stderr io.Writer, use func(*store.Copy) error) error {
	return o.withCopy(stderr, func(e etcd.Options) error { return etcd.Read(e, use) })
}

// take is read, and deletes the state.
func (o *storeOptions) take(ctx context.Context, stderr io.Writer, use func(*store.Copy) error) error {
	return o.withCopy(stderr, func(e etcd.Options) error { return etcd.Take(ctx, e, use) })
}

// withCopy calls do with options that have a directory for a copy.
func (o *storeOptions) withCopy(stderr io.Writer, do func(etcd.Options) error) error {
	e, err := o.options()
	if err != nil {
		return err
	}
	if e.Dir, err = os.MkdirTemp("", "mycloud-*"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(e.Dir) }()
	e.Clock, e.Logger = clock.RealClock{}, slog.New(slog.NewTextHandler(stderr, nil))
	return do(e)
}

// write writes the state to etcd.
func (o *storeOptions) write(ctx context.Context, from *store.Copy) error {
	e, err := o.options()
	if err != nil {
		return err
	}
	return etcd.Write(ctx, e, from)
}

// createState writes the file of a state in a data directory that has none.
func createState(dir string, from *store.Copy) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, server.StateFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already; move it away, or choose a different --data-dir", path)
	}
	return durable.Write(path, func(w io.Writer) error { return from.Backup(w) })
}

// oneFile accepts the name of a file.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.Usagef("requires the argument FILE")
	}
	return nil
}
