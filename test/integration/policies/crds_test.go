package policies_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// lookEvery is the promise of both roles for CRDs that are installed later, with a margin for slow machines.
const lookEvery = 35 * time.Second

// Without policies, or before their CRDs are installed, everything else works.
func TestWithoutCRDs(t *testing.T) {
	e := env.Start(t, env.Options{})
	ctx := t.Context()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	without := values(port, "Fail")
	without["crds"] = map[string]any{"enabled": false}
	if err := e.InstallChart(ctx, without); err != nil {
		t.Fatal(err)
	}
	mycloud, err := e.StartMycloud(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := cloudapi.New(cloudapi.Options{Endpoint: mycloud.Endpoint, Token: cloudapi.StaticToken(mycloud.Token)})
	if err != nil {
		t.Fatal(err)
	}
	webhook, err := e.StartWebhook(ctx, port)
	if err != nil {
		t.Fatal(err)
	}
	controllers, err := e.StartControllers(ctx, env.CloudConfigFor("dev", mycloud))
	if err != nil {
		t.Fatal(err)
	}

	s := &space{t: t, Env: e, name: "early"}
	s.make("tier=shared")
	s.becomes("10000")
	web := s.create(s.service("web"))
	builtIn := prefix + "listener-idle-timeout=built-in," + maxQPS + "=built-in"
	if got, by := web.Annotations[maxQPS], web.Annotations[defaulted]; got != "10000" || by != builtIn {
		t.Errorf("the limit is %s by %q, want the built-in default", got, by)
	}
	s.balancer(cloud, web, 10000, "round_robin")
	roles := []*env.Server{&webhook.Server, controllers}
	said := func(text string) {
		t.Helper()
		for _, role := range roles {
			log, err := os.ReadFile(role.Log())
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(log), text); n != 1 {
				t.Errorf("%s logged %d times %q", role.Name(), n, text)
			}
		}
	}
	said("Policy CRDs are not installed; serving without policies")

	if err := e.InstallChart(ctx, values(port, "Fail")); err != nil {
		t.Fatal(err)
	}
	s.apply(example(t, "policy-cluster.yaml"))
	env.Eventually(t, lookEvery, "policies at admission", func(ctx context.Context) error {
		manifest := s.manifest(s.service("big", builder.DLB("listener-maxqps", "30000")))
		out, err := env.Kubectl(ctx, e.DeveloperKubeconfig, manifest, "create", "--dry-run=server", "-f", "-")
		if err != nil {
			return err
		}
		if !strings.Contains(out.Stderr, tooMuch) {
			return fmt.Errorf("kubectl printed %+v", out)
		}
		return nil
	})
	s.violating("shared", 0, 1)
	said("Policy CRDs are not installed; serving without policies")
	said("Policy CRDs are installed; serving with policies")
	nothingForbidden(t, e)
}
