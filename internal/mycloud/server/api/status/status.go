// Package status records how requests were answered.
package status

import "net/http"

// Recorder records the status of a response.
type Recorder struct {
	http.ResponseWriter

	// Status is that of the response, 0 before there is one.
	Status int
}

// WriteHeader records the status. After the first one, it does nothing: the API's library sets another one when a client is gone,
// about which the server would complain in its log each time.
func (r *Recorder) WriteHeader(status int) {
	if r.Status != 0 {
		return
	}
	r.Status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write records the status that it implies.
func (r *Recorder) Write(b []byte) (int, error) {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
