package server_test

import (
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/fault"
)

func TestJobs(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock), withJobs(time.Minute))
	ctx := t.Context()
	lb, create, err := c.client.CreateLoadBalancer(ctx, tree("one"), cloudapi.WriteOptions{IdempotencyKey: "k"})
	if err != nil || create == "" {
		t.Fatal(create, err)
	}
	diff(t, "state", cloudv1.ProvisioningPendingCreate, lb.ProvisioningState)
	_, again, err := c.client.CreateLoadBalancer(ctx, tree("one"), cloudapi.WriteOptions{IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "the job of a repeated request", create, again)

	// A load balancer accepts further writes while it is being created; their order is kept.
	s := tree("one")
	s.Listeners[0].MaxQPS = 7
	lb, update, err := c.client.UpdateLoadBalancer(ctx, lb.ID, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil || update == "" || update == create {
		t.Fatal(update, err)
	}
	s.Listeners[0].MaxQPS = 8
	dry := cloudapi.WriteOptions{IfMatch: lb.Revision, DryRun: true}
	if _, job, err := c.client.UpdateLoadBalancer(ctx, lb.ID, s, dry); job != "" || err != nil {
		t.Errorf("a dry run starts job %q, %v", job, err)
	}
	if _, job, err := c.client.CreateLoadBalancer(ctx, tree("two"), dry); job != "" || err != nil {
		t.Errorf("a dry run starts job %q, %v", job, err)
	}
	s.Listeners[0].MaxQPS = 7
	_, unchanged, err := c.client.UpdateLoadBalancer(ctx, lb.ID, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "the job that a write waits for which changes nothing", update, unchanged)

	job := func(id string) *cloudv1.Job { return must[*cloudv1.Job](t)(c.client.Job(ctx, id, 0)) }
	eventually(t, "the creation runs", func() bool { return job(create).State == cloudv1.JobRunning })
	diff(t, "the update waits", cloudv1.JobQueued, job(update).State)
	clock.Step(30 * time.Second)
	diff(t, "progress", 50, job(create).Progress)
	clock.Step(-24 * time.Hour)
	diff(t, "progress by a clock that was set back", 0, job(create).Progress)
	clock.Step(24 * time.Hour)
	clock.Step(30 * time.Second)
	eventually(t, "the creation ends", func() bool { return job(create).State == cloudv1.JobSucceeded })
	now := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, lb.ID))
	diff(t, "state", cloudv1.ProvisioningPendingUpdate, now.ProvisioningState)

	// The next server finishes the jobs of a stopped one.
	c.stop()
	c = newCloud(t, withClock(clock), withDir(c.dir), withJobs(time.Minute))
	waited := make(chan error, 1)
	go func() { waited <- c.client.WaitJob(ctx, update) }()
	eventually(t, "the update runs", func() bool { return job(update).State == cloudv1.JobRunning })
	clock.Step(time.Minute)
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	now = must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, lb.ID))
	diff(t, "state", cloudv1.ProvisioningActive, now.ProvisioningState)

	on := cloudapi.WriteOptions{IfMatch: now.Revision}
	remove, err := c.client.DeleteLoadBalancer(ctx, lb.ID, on)
	if err != nil || remove == "" {
		t.Fatal(remove, err)
	}
	now = must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, lb.ID))
	diff(t, "state", cloudv1.ProvisioningPendingDelete, now.ProvisioningState)
	on.IfMatch = now.Revision
	twice, err := c.client.DeleteLoadBalancer(ctx, lb.ID, on)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "the job of a second deletion", remove, twice)
	_, _, err = c.client.UpdateLoadBalancer(ctx, lb.ID, tree("one"), on)
	if !cloudapi.HasCode(err, cloudv1.CodeConflict) {
		t.Errorf("a change while it is being deleted: %v", err)
	}
	eventually(t, "the deletion runs", func() bool { return job(remove).State == cloudv1.JobRunning })
	clock.Step(time.Minute)
	eventually(t, "it is gone", func() bool {
		_, err := c.client.LoadBalancer(ctx, lb.ID)
		return cloudapi.IsNotFound(err)
	})
	done := must[*cloudv1.List[cloudv1.Job]](t)(c.client.ListJobs(ctx, cloudapi.ListOptions{State: "succeeded"}))
	diff(t, "jobs done", 3, len(done.Items))
	if _, err := c.client.Job(ctx, "job-none", time.Second); !cloudapi.IsNotFound(err) {
		t.Errorf("a job that does not exist: %v", err)
	}
}

func TestWaitForAJobIsBounded(t *testing.T) {
	c := newCloud(t, withClock(newFakeClock()), withJobs(time.Minute))
	_, job, err := c.client.CreateLoadBalancer(t.Context(), tree("one"), cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	j := must[*cloudv1.Job](t)(c.client.Job(t.Context(), job, time.Second))
	if j.Done() || time.Since(start) < time.Second {
		t.Errorf("the answer after %s: %+v", time.Since(start), j)
	}
	path, known := "/v1/jobs/"+job, []string{"If-None-Match", `"` + j.Revision + `"`}
	c.send("GET", path, nil, known...).want(t, 304, "")
	c.send("GET", path, nil, "If-None-Match", `"0"`).want(t, 200, "")
	start = time.Now()
	c.send("GET", path+"?wait=1", nil, known...).want(t, 304, "")
	if time.Since(start) < time.Second {
		t.Errorf("what is known of a job cuts the waiting short: %s", time.Since(start))
	}
	if err := c.client.WaitJob(t.Context(), ""); err != nil {
		t.Errorf("there is nothing to wait for: %v", err)
	}
}

// TestFailedJobs checks that a load balancer whose job failed says so, and that the next write tries again.
func TestFailedJobs(t *testing.T) {
	clock := newFakeClock()
	faults := fault.New(clock)
	c := newCloud(t, withClock(clock), withJobs(time.Minute), func(o *server.Options) { o.Faults = faults })
	fail := func(rules ...fault.Rule) {
		t.Helper()
		if err := faults.Set(fault.Plan{Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	full := fault.Rule{Job: "*", Status: 503, Code: cloudv1.CodeCapacity}
	ctx := t.Context()
	run := func(job string) *cloudv1.Job {
		t.Helper()
		now := func() *cloudv1.Job { return must[*cloudv1.Job](t)(c.client.Job(ctx, job, 0)) }
		eventually(t, "the job runs", func() bool { return now().State == cloudv1.JobRunning && clock.HasWaiters() })
		clock.Step(time.Minute)
		eventually(t, "the job ends", func() bool { return now().Done() })
		return now()
	}
	read := func(id string) *cloudv1.LoadBalancer {
		t.Helper()
		return must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, id))
	}
	fail(full)
	lb, job, err := c.client.CreateLoadBalancer(ctx, tree("one"), cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	since := c.changes("0").Revision
	end := run(job)
	diff(t, "state of the job", cloudv1.JobFailed, end.State)
	want := &cloudv1.Problem{
		Type: "about:blank", Title: "Service Unavailable", Status: 503, Code: cloudv1.CodeCapacity, Detail: "injected fault",
		Retryable: true, Resource: &cloudv1.Reference{Kind: "load-balancer", ID: lb.ID},
	}
	diff(t, "its error", want, end.Error)
	lb = read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningError, lb.ProvisioningState)
	diff(t, "fault", want, lb.Fault)
	diff(t, "changes", []string{"load-balancer " + lb.ID + " upsert"}, short(c.changes(since, cloudv1.KindLoadBalancer)))

	fail()
	lb, job, err = c.client.UpdateLoadBalancer(ctx, lb.ID, tree("one"), cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil || job == "" {
		t.Fatal("the same tree again:", job, err)
	}
	diff(t, "state", cloudv1.ProvisioningPendingUpdate, lb.ProvisioningState)
	diff(t, "state of the job", cloudv1.JobSucceeded, run(job).State)
	lb = read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningActive, lb.ProvisioningState)
	if lb.Fault != nil {
		t.Errorf("fault: %+v", lb.Fault)
	}

	fail(full)
	if job, err = c.client.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	run(job)
	lb = read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningPendingDelete, lb.ProvisioningState)
	diff(t, "fault", want, lb.Fault)
	fail()
	if job, err = c.client.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	run(job)
	if _, err := c.client.LoadBalancer(ctx, lb.ID); !cloudapi.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}
