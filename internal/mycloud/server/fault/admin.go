package fault

import (
	"encoding/json"
	"io"
	"net/http"
)

// planMax limits the size of a plan.
const planMax = 1 << 20

// ServeHTTP is the administrators' endpoint: GET returns the rules and their counts, PUT replaces the plan, DELETE ends
// it. The caller must authenticate requests.
func (i *Injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodDelete:
		// The empty plan is valid.
		_ = i.Set(Plan{})
	case http.MethodPut:
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, planMax))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		plan, err := Parse(raw)
		if err == nil {
			err = i.Set(plan)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
	default:
		w.Header().Set("Allow", "GET, PUT, DELETE")
		http.Error(w, "must be GET, PUT or DELETE", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		Rules []Report `json:"rules"`
	}{i.Reports()})
}
