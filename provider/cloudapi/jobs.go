package cloudapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// JobState is the progress of an asynchronous write.
type JobState string

// The states of a job.
const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Job is an asynchronous write. Its name is what it does, such as load-balancer.update.
type Job struct {
	Object
	State      JobState   `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	Progress   int        `json:"progress" minimum:"0" maximum:"100" doc:"Percent."`
	Target     Reference  `json:"target"`
	Error      *Problem   `json:"error,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Done tells whether the job has ended, well or not.
func (j *Job) Done() bool {
	return j.State == JobSucceeded || j.State == JobFailed || j.State == JobCancelled
}

// JobError is a job that did not succeed.
type JobError struct{ Job *Job }

// Error names the job, its state and what the cloud says about it.
func (e *JobError) Error() string {
	s := fmt.Sprintf("job %s on %s %s: %s", e.Job.ID, e.Job.Target.Kind, e.Job.Target.ID, e.Job.State)
	if p := e.Job.Error; p != nil {
		s += fmt.Sprintf(": %s: %s", p.Code, p.Detail)
	}
	return s
}

const (
	// jobWait is how long the cloud may hold one question about a job.
	jobWait = 30 * time.Second
	// jobPause keeps a cloud that does not hold questions from being asked without pause.
	jobPause = 250 * time.Millisecond
)

// Job reads a job. The cloud holds the answer until the job ends, at most for wait, in whole seconds.
func (c *Client) Job(ctx context.Context, id string, wait time.Duration) (*Job, error) {
	r := &request{method: http.MethodGet, path: "/v1/jobs/{id}", id: id}
	if s := int(wait / time.Second); s > 0 {
		r.query, r.held = url.Values{"wait": {strconv.Itoa(s)}}, true
	}
	var j Job
	if _, err := c.do(ctx, r, &j); err != nil {
		return nil, err
	}
	if j.ID != id {
		return nil, malformed(r, fmt.Sprintf("the job's id is %q", j.ID))
	}
	return &j, nil
}

// ListJobs reads all pages of the jobs that o selects.
func (c *Client) ListJobs(ctx context.Context, o ListOptions) (*List[Job], error) {
	return list[Job](ctx, c, &request{path: "/v1/jobs"}, o)
}

// WaitJob waits until a job ends or ctx does. A job that did not succeed is a *JobError. An empty id is that of a write
// that was done at once: there is nothing to wait for.
func (c *Client) WaitJob(ctx context.Context, id string) error {
	for id != "" {
		j, err := c.Job(ctx, id, jobWait)
		if err != nil {
			return fmt.Errorf("wait for job %s: %w", id, err)
		}
		if j.State == JobSucceeded {
			return nil
		}
		if j.Done() {
			return &JobError{Job: j}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for job %s: %w", id, ctx.Err())
		case <-time.After(jobPause):
		}
	}
	return nil
}

// jobID takes the id from a job's location.
func jobID(location string) (string, bool) {
	u, err := url.Parse(location)
	if err != nil {
		return "", false
	}
	id, ok := strings.CutPrefix(u.Path, "/v1/jobs/")
	return id, ok && id != ""
}
