package cloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	configv1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	ccmoptions "k8s.io/cloud-provider/options"
	"k8s.io/component-base/configz"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"
)

// RunOptions hold what Run needs besides the flags; both are required.
type RunOptions struct {
	// Wait returns once the API server and the cloud allow to start, or if they never will. It reports what it waits for,
	// which is then the reason why the process is not ready.
	Wait func(ctx context.Context, waiting func(reason string)) error
	// Assemble builds what runs, after Wait.
	Assemble func(*ccmconfig.CompletedConfig) (Assembly, error)
}

// Run runs the manager until the context ends or the lease is lost. It takes the place of the app's function, which ends
// the process while controllers are writing, so that it cannot release the lease, and which does not answer probes
// before the API server answers.
func (m *Manager) Run(ctx context.Context, o RunOptions) error {
	f := newFront(klog.FromContext(ctx))
	if err := m.wait(ctx, f, o.Wait); ctx.Err() != nil {
		return nil // asked to end while waiting
	} else if err != nil {
		return err
	}
	completed, err := m.configure()
	if err != nil {
		return err
	}
	// What every replica runs ends after the controllers.
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer awaitBackground(&running)
	defer stop()
	assembly, err := o.Assemble(completed)
	if err != nil {
		return err
	}
	served, err := f.serve(around, completed)
	if err != nil {
		return err
	}
	running.Go(func() { <-served })
	running.Go(func() { assembly.Background(around) })
	completed.EventBroadcaster.StartStructuredLogging(0)
	completed.EventBroadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: completed.Client.CoreV1().Events("")})
	defer completed.EventBroadcaster.Shutdown()
	f.waiting.Store(nil)
	return m.lead(ctx, completed, f, func(ctx context.Context) error { return m.control(ctx, completed, assembly) })
}

// awaitBackground waits until what every replica runs has ended, at most for a while: its watches may sleep, as those of
// control.
func awaitBackground(running *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(stopLimit):
	}
}

// wait waits as told and answers probes meanwhile.
func (m *Manager) wait(
	ctx context.Context, f *front, wait func(ctx context.Context, waiting func(reason string)) error,
) error {
	serving, err := m.listen()
	if err != nil {
		return err
	}
	done, err := f.serveProbes(ctx, serving)
	if err != nil {
		return err
	}
	defer done()
	return wait(ctx, f.wait)
}

// configure completes the app's configuration, for which the API server must answer.
func (m *Manager) configure() (*ccmconfig.CompletedConfig, error) {
	config := &ccmconfig.Config{}
	if err := m.Options.ApplyTo(
		config, m.controllers(), disabled(), aliases(), ccmoptions.CloudControllerManagerUserAgent,
	); err != nil {
		return nil, err
	}
	if err := m.guardClients(config); err != nil {
		return nil, err
	}
	completed := config.Complete()
	external := &configv1alpha1.CloudControllerManagerConfiguration{}
	if err := configv1alpha1.Convert_config_CloudControllerManagerConfiguration_To_v1alpha1_CloudControllerManagerConfiguration(
		&completed.ComponentConfig, external, nil,
	); err != nil {
		return nil, fmt.Errorf("convert the configuration for /configz: %w", err)
	}
	external.SetGroupVersionKind(configv1alpha1.SchemeGroupVersion.WithKind("CloudControllerManagerConfiguration"))
	page, err := configz.New(ccmapp.ConfigzName)
	if err != nil {
		return nil, fmt.Errorf("register /configz: %w", err)
	}
	return completed, page.Set(external)
}

// control runs the controllers until the context ends and ours have stopped. The app's cannot be waited for.
func (m *Manager) control(ctx context.Context, completed *ccmconfig.CompletedConfig, assembly Assembly) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, run := range assembly.Leading {
		running.Go(func() { run(ctx) })
	}
	constructors := constructors()
	for name, run := range assembly.Run {
		constructors[name] = ccmapp.ControllerInitFuncConstructor{Constructor: start(&running, name, run)}
	}
	assembly.Cloud.Initialize(completed.ClientBuilder, ctx.Done())
	if user, ok := assembly.Cloud.(cloudprovider.InformerUser); ok {
		user.SetInformers(completed.SharedInformers)
	}
	if err := m.startAll(ctx, completed, ccmapp.ConstructControllerInitializers(constructors, completed, assembly.Cloud)); err != nil {
		return err
	}
	// Informers only read, so they are not waited for: after an API server has refused a connection, client-go sleeps for
	// up to half a minute, also past the end of the context, and the lease would not be released.
	completed.SharedInformers.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

// startAll starts the enabled controllers.
func (m *Manager) startAll(
	ctx context.Context, completed *ccmconfig.CompletedConfig, initializers map[string]ccmapp.InitFunc,
) error {
	controllersmetrics.Register()
	// The app's controllers use nothing else of it.
	shared := genericcontrollermanager.ControllerContext{
		InformerFactory: completed.SharedInformers, Stop: ctx.Done(), ResyncPeriod: ccmapp.ResyncPeriod(completed),
		ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager"),
	}
	logger := klog.FromContext(ctx)
	for _, name := range slices.Sorted(maps.Keys(initializers)) {
		if !m.Enabled(name) {
			logger.Info("Controller is disabled", "controller", name)
			continue
		}
		_, started, err := initializers[name](ctx, shared)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		logger.V(1).Info("Controller", "controller", name, "started", started)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.Jitter(
			completed.ComponentConfig.Generic.ControllerStartInterval.Duration, ccmapp.ControllerStartJitter,
		)):
		}
	}
	return nil
}

// start runs a controller of our own until the context ends; running makes the process wait for it.
func start(running *sync.WaitGroup, name string, run func(context.Context)) ccmapp.InitFuncConstructor {
	return func(ccmapp.ControllerInitContext, *ccmconfig.CompletedConfig, cloudprovider.Interface) ccmapp.InitFunc {
		return func(
			ctx context.Context, shared genericcontrollermanager.ControllerContext,
		) (controller.Interface, bool, error) {
			logger := klog.FromContext(ctx).WithName(name)
			running.Go(func() {
				logger.Info("Starting controller")
				defer logger.Info("Stopped controller")
				shared.ControllerManagerMetrics.ControllerStarted(metricName(name))
				defer shared.ControllerManagerMetrics.ControllerStopped(metricName(name))
				run(klog.NewContext(ctx, logger))
			})
			return nil, true, nil
		}
	}
}
