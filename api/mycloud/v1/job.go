package v1

import "time"

// JobState is the state of a job.
type JobState string

// The states of a job.
const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Job is an asynchronous write. Its name is the operation, such as load-balancer.update.
type Job struct {
	Object
	State    JobState  `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	Progress int       `json:"progress" minimum:"0" maximum:"100" doc:"Percent."`
	Target   Reference `json:"target"`
	// TargetRevision is what edges must have applied.
	TargetRevision string     `json:"target_revision,omitempty" doc:"The revision of the target that the job is for."`
	Error          *Problem   `json:"error,omitempty"`
	StartedAt      *time.Time `json:"started_at,omitempty"`
	FinishedAt     *time.Time `json:"finished_at,omitempty"`
}

// Done reports whether the job has ended, successfully or not.
func (j *Job) Done() bool {
	return j.State == JobSucceeded || j.State == JobFailed || j.State == JobCancelled
}
