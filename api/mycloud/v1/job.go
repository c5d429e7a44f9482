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
	// The progress of the write; succeeded, failed and cancelled are final.
	State JobState `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	// The progress in percent.
	Progress int `json:"progress" minimum:"0" maximum:"100"`
	// The object that is written.
	Target Reference `json:"target"`
	// The revision of the target that the job is for, which edges must have applied.
	TargetRevision string `json:"target_revision,omitempty"`
	// Why the job failed.
	Error *Problem `json:"error,omitempty"`
	// When the job began to run.
	StartedAt *time.Time `json:"started_at,omitempty"`
	// When the job ended.
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Done reports whether the job has ended, successfully or not.
func (j *Job) Done() bool {
	return j.State == JobSucceeded || j.State == JobFailed || j.State == JobCancelled
}
