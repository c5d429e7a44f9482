package api

import (
	"context"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// GetJobParams holds the parameters of get-job.
type GetJobParams struct {
	ID   string `path:"id" maxLength:"255" doc:"The id of the job."`
	Wait int    `query:"wait" minimum:"0" maximum:"60" doc:"Maximum time in seconds to hold the response until the job ends."`
	// IfNoneMatch is compared when the response is due: it does not shorten the wait.
	IfNoneMatch string `header:"If-None-Match" doc:"A revision. The response is 304 if the job still has it when the wait is over."`
}

func (a *API) registerJobs() {
	jobs := a.jobs()
	registerList(a, operation{"list-jobs", "jobs", "Jobs"}, "/v1/jobs", jobs)
	registerRead(a, operation{"get-job", "jobs", "A job"}, "/v1/jobs/{id}",
		func(ctx context.Context, p *GetJobParams) (*Found[cloudv1.Job], error) {
			return a.waitForJob(ctx, jobs, p)
		}, conditional)
}

func (a *API) jobs() view[cloudv1.Job] {
	return view[cloudv1.Job]{
		kind:  store.Jobs,
		state: func(j *cloudv1.Job) string { return string(j.State) },
		show:  a.showJobs,
	}
}

// waitForJob reads a job when it has ended or the client's wait is over.
func (a *API) waitForJob(ctx context.Context, jobs view[cloudv1.Job], p *GetJobParams) (*Found[cloudv1.Job], error) {
	held, cancel := context.WithTimeout(ctx, time.Duration(p.Wait)*time.Second)
	defer cancel()
	for {
		changed := a.Store.Changed()
		j, err := getObject(a, jobs, GetParams{ID: p.ID})
		if err != nil {
			return nil, err
		}
		if j.Body.Done() {
			return j.unless(p.IfNoneMatch, j.Body.Revision)
		}
		select {
		case <-changed:
		case <-held.Done():
			return j.unless(p.IfNoneMatch, j.Body.Revision)
		}
	}
}

// showJobs sets the progress of running jobs.
func (a *API) showJobs(tx *store.Tx) func(*cloudv1.Job) error {
	return func(j *cloudv1.Job) error {
		if j.State == cloudv1.JobRunning && j.StartedAt != nil && a.JobDuration > 0 {
			j.Progress = min(max(int(100*tx.Now.Sub(*j.StartedAt)/a.JobDuration), 0), 99)
		}
		return nil
	}
}
