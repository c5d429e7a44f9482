package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/test/env"
	"quaymaster.dev/test/process"
)

const (
	// clusterID is the first part of the names of load balancers.
	clusterID = "dev"
	// nodesLimit bounds the wait for initialized Nodes.
	nodesLimit = 2 * time.Minute
)

// demo is one run of the demonstration.
type demo struct {
	dir  *directory
	root string
	out  io.Writer

	env   *env.Env
	cloud *env.Mycloud
	// restarted are the programs that come back when they end.
	restarted []*env.Server
	// kubelets pretends to be the kubelet of every instance.
	kubelets *kubelets
	owned    sync.WaitGroup
}

// run starts everything and returns when the context or something essential ends. What it started runs on until stop.
func (d *demo) run(ctx context.Context) error {
	begin := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer d.owned.Wait()
	defer cancel(nil)
	if err := d.start(ctx); err != nil {
		return err
	}

	d.watch(ctx, cancel)
	d.owned.Go(func() { d.kubelets.follow(ctx) })

	d.say("checking that everything answers")
	if err := d.check(ctx); err != nil {
		return cause(ctx, err)
	}
	if err := d.dir.markReady(); err != nil {
		return err
	}
	if err := d.explain(time.Since(begin)); err != nil {
		return err
	}
	<-ctx.Done()
	return cause(ctx, nil)
}

// start brings up one part after the other.
func (d *demo) start(ctx context.Context) error {
	var err error
	d.say("starting etcd, kube-apiserver and kube-controller-manager")
	d.env, err = env.New(ctx, env.Options{Dir: d.dir.state(), PIDDir: d.dir.pids(), ControllerManager: true})
	if err != nil {
		return err
	}

	d.say("starting the cloud and its instances' kubelets")
	if d.cloud, err = d.env.StartMycloud(ctx, ""); err != nil {
		return err
	}
	if err := d.dir.publish(d.env.AdminKubeconfig, d.cloud.Endpoint, d.cloud.Token); err != nil {
		return err
	}
	client, err := cloudapi.New(cloudapi.Options{
		Endpoint:  d.cloud.Endpoint,
		Token:     cloudapi.StaticToken(d.cloud.Token),
		UserAgent: "quaymaster-dev",
	})
	if err != nil {
		return err
	}
	d.kubelets = newKubelets(client, d.env.Client, d.out)
	if err := startKwok(d.env); err != nil {
		return err
	}
	if err := d.kubelets.sync(ctx); err != nil {
		return err
	}

	d.say("installing the chart and starting both roles of Quaymaster with the rights of their ServiceAccounts")
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	if err := d.env.InstallChart(ctx, chartValues(port)); err != nil {
		return err
	}
	if err := d.apply(ctx, "storageclasses.yaml"); err != nil {
		return err
	}
	config := env.CloudConfigFor(clusterID, d.cloud)
	readsCloud, err := d.env.CloudConfigArg("webhook", config)
	if err != nil {
		return err
	}
	webhook, err := d.env.StartWebhook(ctx, port, readsCloud)
	if err != nil {
		return err
	}
	controllers, err := d.env.StartControllers(ctx, config)
	if err != nil {
		return err
	}
	d.restarted = []*env.Server{&d.cloud.Server, &webhook.Server, controllers}
	return nil
}

// watch keeps alive what may be killed to see what happens, and ends the run when anything else ends.
func (d *demo) watch(ctx context.Context, end context.CancelCauseFunc) {
	essential := d.env.Processes()
	for _, server := range d.restarted {
		essential = slices.DeleteFunc(essential, func(p *process.Process) bool { return p == server.Process })
		d.owned.Go(func() {
			if err := keepRunning(ctx, server, d.out); err != nil {
				end(err)
			}
		})
	}
	for _, p := range essential {
		d.owned.Go(func() {
			select {
			case <-ctx.Done():
			case <-p.Done():
				end(p.Exit())
			}
		})
	}
}

// explain prints what to try.
func (d *demo) explain(took time.Duration) error {
	kubectl, err := env.Tool("kubectl")
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, guide, took.Seconds(), d.relative(d.env.LogDir()), d.relative(d.dir.env()), d.relative(kubectl))
	return nil
}

// stop ends every process of this run.
func (d *demo) stop() error {
	if d.env == nil {
		return nil
	}
	return d.env.Stop()
}

func (d *demo) say(step string) { fmt.Fprintln(d.out, "…", step) }

// relative shortens a path for people in the root of the repository.
func (d *demo) relative(path string) string {
	short, err := filepath.Rel(d.root, path)
	if err != nil || !filepath.IsLocal(short) {
		return path
	}
	return short
}

// cause returns why a run ends: the first failure of a part, rather than what failed because of it.
func cause(ctx context.Context, err error) error {
	if first := context.Cause(ctx); first != nil {
		return first
	}
	return err
}

// apply applies a file in examples as the administrator.
func (d *demo) apply(ctx context.Context, name string) error {
	manifest, err := d.example(name)
	if err != nil {
		return err
	}
	out, err := env.Kubectl(ctx, d.env.AdminKubeconfig, manifest, "apply", "-f", "-")
	if err != nil {
		return err
	}
	if out.Code != 0 {
		return fmt.Errorf("apply %s: kubectl ended with %d: %s", name, out.Code, strings.TrimSpace(out.Stderr))
	}
	return nil
}

// example returns the text of a file in examples.
func (d *demo) example(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(d.root, "examples", name))
	return string(data), err
}
