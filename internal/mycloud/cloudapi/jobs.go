package cloudapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// JobError is the error of a job that did not succeed.
type JobError struct{ Job *cloudv1.Job }

// Error returns the job, its state and the cloud's problem.
func (e *JobError) Error() string {
	s := fmt.Sprintf("job %s on %s %s: %s", e.Job.ID, e.Job.Target.Kind, e.Job.Target.ID, e.Job.State)
	if p := e.Job.Error; p != nil {
		s += fmt.Sprintf(": %s: %s", p.Code, p.Detail)
	}
	return s
}

const (
	// jobWait is how long the cloud may hold the response to one read of a job.
	jobWait = 30 * time.Second
	// jobPause and maxJobPause limit the rate of reads if the cloud does not hold responses; the pause doubles each time.
	jobPause    = 250 * time.Millisecond
	maxJobPause = 5 * time.Second
)

// Job reads a job. The cloud holds the response until the job ends, at most for wait, in whole seconds.
func (c *Client) Job(ctx context.Context, id string, wait time.Duration) (*cloudv1.Job, error) {
	r := &request{method: http.MethodGet, path: "/v1/jobs/{id}", id: id, query: url.Values{}}
	r.await(wait)
	return getBy[cloudv1.Job](ctx, c, r)
}

// ListJobs reads all pages of the jobs that o selects.
func (c *Client) ListJobs(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Job], error) {
	return list[cloudv1.Job](ctx, c, &request{path: "/v1/jobs"}, o)
}

// WaitJob waits until the job ends or ctx is done. If the job did not succeed, the error is a *JobError. An empty id
// means that the write completed synchronously: there is nothing to wait for.
func (c *Client) WaitJob(ctx context.Context, id string) error {
	for pause := jobPause; id != ""; pause = min(2*pause, maxJobPause) {
		j, err := c.Job(ctx, id, jobWait)
		if err != nil {
			return fmt.Errorf("wait for job %s: %w", id, err)
		}
		if j.State == cloudv1.JobSucceeded {
			return nil
		}
		if j.Done() {
			return &JobError{Job: j}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for job %s: %w", id, ctx.Err())
		case <-c.o.Clock.After(pause):
		}
	}
	return nil
}

// await asks the cloud to hold the response until there is news, at most for wait, in whole seconds.
func (r *request) await(wait time.Duration) {
	if r.hold = max(0, wait.Truncate(time.Second)); r.hold > 0 {
		r.query.Set("wait", strconv.Itoa(int(r.hold/time.Second)))
	}
}

// jobID returns the id in the URL of a job.
func jobID(location string) (string, bool) {
	u, err := url.Parse(location)
	if err != nil {
		return "", false
	}
	id, ok := strings.CutPrefix(u.Path, "/v1/jobs/")
	return id, ok && id != ""
}

// Changes reads what happened to objects of the kinds after the revision since, which is that of an earlier response
// or of a list. If nothing did, the cloud holds the response for at most wait, in whole seconds. If since is too old,
// the error has the code page-token-expired: the caller must list again.
func (c *Client) Changes(
	ctx context.Context, since string, kinds []string, wait time.Duration,
) (*cloudv1.Changes, error) {
	r := &request{method: http.MethodGet, path: "/v1/changes", query: url.Values{
		"since": {since}, "kinds": {strings.Join(kinds, ",")},
	}}
	r.await(wait)
	return readValid(ctx, c, r, "items or revision is missing", func(changes *cloudv1.Changes) bool {
		return changes.Items != nil && changes.Revision != ""
	})
}
