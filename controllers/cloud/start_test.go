package cloud

import (
	"context"
	"strings"
	"sync"
	"testing"

	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/component-base/metrics/testutil"
	genericcontrollermanager "k8s.io/controller-manager/app"
)

// A controller that replaces one of the app has its name in the metric of running controllers.
func TestStartedMetric(t *testing.T) {
	controllersmetrics.Register()
	shared := genericcontrollermanager.ControllerContext{
		ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics("test"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	started := make(chan struct{}, 2)
	for _, name := range []string{names.NodeRouteController, own} {
		_, enabled, err := start(&running, name, func(ctx context.Context) {
			started <- struct{}{}
			<-ctx.Done()
		})(app.ControllerInitContext{}, nil, nil)(ctx, shared)
		if err != nil || !enabled {
			t.Fatal(enabled, err)
		}
		<-started
	}
	expect := func(value string) {
		t.Helper()
		const metric = "running_managed_controllers"
		want := "# HELP " + metric + " [BETA] Indicates where instances of a controller are currently running\n# TYPE " +
			metric + " gauge\n" + metric + `{manager="test",name="own-controller"} ` + value + "\n" +
			metric + `{manager="test",name="route"} ` + value + "\n"
		if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), metric); err != nil {
			t.Error(err)
		}
	}
	expect("1")
	cancel()
	running.Wait()
	expect("0")
}
