package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

const (
	// clusterID is the first part of the names of load balancers.
	clusterID = "dev"
	// nodesLimit limits the wait for initialized Nodes.
	nodesLimit = 2 * time.Minute
)

// demo is one run of the demonstration.
type demo struct {
	dir  *directory
	root string
	out  io.Writer

	env   *env.Env
	cloud *env.Mycloud
	// restarted holds the programs that are restarted when they terminate.
	restarted []*env.Server
	// kubelets simulates the kubelet of every instance.
	kubelets *kubelets
	// traffic is nil if the machine lacks what it needs; edgeToken is then empty.
	traffic   *traffic
	edgeToken string
	// inventory is the file with the initial objects of the cloud; empty for the example.
	inventory string
	owned     sync.WaitGroup
}

// run starts all parts and returns when the context ends or an essential part terminates. The parts keep running until
// stop.
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

	d.step("checking that all parts respond")
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

// start starts the parts one after the other.
func (d *demo) start(ctx context.Context) error {
	var err error
	d.step("starting etcd, kube-apiserver and kube-controller-manager")
	d.env, err = env.New(ctx, env.Options{Dir: d.dir.state(), PIDDir: d.dir.pids(), ControllerManager: true})
	if err != nil {
		return err
	}

	d.step("starting the cloud and the kubelets of its instances")
	missing := lacking()
	var args []string
	if missing == "" {
		d.edgeToken = filepath.Join(d.dir.state(), "edge.token")
		if err := os.WriteFile(d.edgeToken, []byte(rand.Text()+"\n"), 0o600); err != nil {
			return err
		}
		args = append(args, "--edge-token-file="+d.edgeToken)
		if d.inventory, err = d.chooseRanges(); err != nil {
			return err
		}
	}
	if d.cloud, err = d.env.StartMycloud(ctx, d.inventory, args...); err != nil {
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
	d.kubelets = newKubelets(client, d.env.Client, clock.RealClock{}, d.out)
	if err := d.kubelets.sync(ctx); err != nil {
		return err
	}

	if missing != "" {
		d.step("leaving out traffic, because this machine lacks " + missing + "; load balancers will not answer")
	} else {
		d.step("starting an edge and backends in namespaces of their own")
		if err := d.startTraffic(ctx); err != nil {
			return fmt.Errorf("start traffic: %w", err)
		}
	}

	d.step("installing the chart and starting both roles of Quaymaster with their ServiceAccounts")
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
	// A few Nodes would otherwise take minutes to leave one by one.
	config["ingressNodes"] = map[string]any{"maxRemovedPercentPerMinute": 100}
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

// watch restarts the programs that users may kill, and ends the run when any other process terminates.
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

// explain prints the guide.
func (d *demo) explain(took time.Duration) error {
	kubectl, err := env.Tool("kubectl")
	if err != nil {
		return err
	}
	answers := ""
	if d.traffic != nil {
		answers = fmt.Sprintf(trafficGuide, d.relative(kubectl))
	}
	fmt.Fprintf(d.out, guide, took.Seconds(), d.relative(d.env.LogDir()), d.relative(d.dir.env()), d.relative(kubectl), answers,
		d.cloud.Endpoint+"/ui/", d.relative(d.cloud.TokenFile))
	return nil
}

// stop terminates every process of this run.
func (d *demo) stop() error {
	var err error
	if d.traffic != nil {
		err = d.traffic.stop()
	}
	if d.env == nil {
		return err
	}
	return errors.Join(err, d.env.Stop())
}

func (d *demo) step(name string) { fmt.Fprintln(d.out, "…", name) }

// relative returns a path relative to the root of the repository if it is inside.
func (d *demo) relative(path string) string {
	short, err := filepath.Rel(d.root, path)
	if err != nil || !filepath.IsLocal(short) {
		return path
	}
	return short
}

// cause returns why a run ends: the first failure of a part rather than its consequences.
func cause(ctx context.Context, err error) error {
	if first := context.Cause(ctx); first != nil {
		return first
	}
	return err
}

// apply applies a file from examples with the administrator's kubeconfig.
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
		return fmt.Errorf("apply %s: kubectl exited with code %d: %s", name, out.Code, strings.TrimSpace(out.Stderr))
	}
	return nil
}

// example returns the content of a file in examples.
func (d *demo) example(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(d.root, "examples", name))
	return string(data), err
}

// chartValues returns the values of a development installation: the API server calls the webhook on a loopback port,
// and denies Services while the webhook is unavailable, so that a dead webhook is not mistaken for a permissive one.
func chartValues(port int) env.Values {
	return env.Values{
		"webhook": map[string]any{
			"url":           env.WebhookURL(port),
			"failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"},
		},
		// The permissions of the controllers depend on these values.
		"cloudController": map[string]any{"clusterCIDR": env.ClusterCIDR},
		"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
	}
}
