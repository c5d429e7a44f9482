package rights

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// Record is what ServiceAccounts did.
type Record struct {
	// Used are the rights that requests needed.
	Used sets.Set[Right]
	// Forbidden are requests that were refused for want of a right.
	Forbidden sets.Set[string]
}

// NewRecord is one of nothing.
func NewRecord() *Record {
	return &Record{Used: sets.New[Right](), Forbidden: sets.New[string]()}
}

// Note adds what an audit event tells. Of users that are no ServiceAccounts nothing is kept.
func (r *Record) Note(event *auditv1.Event) {
	namespace, name, err := serviceaccount.SplitUsername(event.User.Username)
	if err != nil {
		return
	}
	account := namespace + "/" + name
	code := 0
	if event.ResponseStatus != nil {
		code = int(event.ResponseStatus.Code)
	}
	if code == http.StatusForbidden || event.Annotations["authorization.k8s.io/decision"] == "forbid" {
		r.Forbidden.Insert(fmt.Sprintf("%s: %s %s: %s", account, event.Verb, event.RequestURI, reason(event)))
		return
	}
	if event.ObjectRef == nil {
		return // a path such as /version, which everybody may read
	}
	use := Right{
		Account: account, Verb: event.Verb, Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource,
		Name: event.ObjectRef.Name, Namespace: event.ObjectRef.Namespace,
	}
	if sub := event.ObjectRef.Subresource; sub != "" {
		use.Resource += "/" + sub
	}
	r.Used.Insert(use)
	// The API server asks for this right, too, when a patch is about to make its object, and notes no event of its own.
	if use.Verb == "patch" && code == http.StatusCreated {
		use.Verb = "create"
		r.Used.Insert(use)
	}
}

func reason(event *auditv1.Event) string {
	if event.ResponseStatus != nil {
		return event.ResponseStatus.Message
	}
	return event.Annotations["authorization.k8s.io/reason"]
}
