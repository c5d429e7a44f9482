package watch

import (
	"context"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/etag"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/store"
)

// getJobParams holds the parameters of get-job.
type getJobParams struct {
	ID   string `path:"id" maxLength:"255" doc:"The id of the job."`
	Wait int    `query:"wait" minimum:"0" maximum:"60" doc:"Maximum time in seconds to hold the response until the job ends."`
	// IfNoneMatch is compared when the response is due: it does not shorten the wait.
	IfNoneMatch string `header:"If-None-Match" doc:"A revision. The response is 304 if the job still has it when the wait is over."`
}

// RegisterJobs adds the operations of jobs.
func RegisterJobs(r *read.Reader, jobs read.View[cloudv1.Job]) {
	read.RegisterList(r, operation.New("list-jobs", "jobs", "Jobs"), "/v1/jobs", jobs)
	held := newHolds(r.Store)
	operation.Read(r.API, operation.New("get-job", "jobs", "A job"), "/v1/jobs/{id}",
		func(ctx context.Context, p *getJobParams) (*operation.Found[cloudv1.Job], error) {
			return waitForJob(ctx, r, held, jobs, p)
		}, describe.Conditional)
}

// Jobs defines how jobs are read, which take a time besides that which edges need.
func Jobs(duration time.Duration) read.View[cloudv1.Job] {
	return read.View[cloudv1.Job]{
		Kind:  store.Jobs,
		State: func(j *cloudv1.Job) string { return string(j.State) },
		Show:  func(tx *store.Tx) func(*cloudv1.Job) error { return showJobs(tx, duration) },
	}
}

// waitForJob reads a job when it has ended or the client's wait is over.
func waitForJob(
	ctx context.Context, r *read.Reader, held *holds, jobs read.View[cloudv1.Job], p *getJobParams,
) (*operation.Found[cloudv1.Job], error) {
	var j *operation.Found[cloudv1.Job]
	err := held.until(ctx, p.Wait, func() (done bool, err error) {
		if j, err = read.Object(r, jobs, read.GetParams{ID: p.ID}); err != nil {
			return false, err
		}
		return j.Body.Done(), nil
	})
	if err != nil {
		return nil, err
	}
	if etag.Matches(p.IfNoneMatch, j.Body.Revision, true) {
		return nil, etag.NotModified(j.Body.Revision)
	}
	return j, nil
}

// showJobs sets the progress of running jobs.
func showJobs(tx *store.Tx, duration time.Duration) func(*cloudv1.Job) error {
	return func(j *cloudv1.Job) error {
		if j.State == cloudv1.JobRunning && j.StartedAt != nil && duration > 0 {
			j.Progress = min(max(int(100*tx.Now.Sub(*j.StartedAt)/duration), 0), 99)
		}
		return nil
	}
}
