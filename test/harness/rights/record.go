package rights

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// Record records what ServiceAccounts did.
type Record struct {
	// Used holds the permissions that requests needed.
	Used sets.Set[Right]
	// Forbidden describes the requests that were denied because of missing permissions.
	Forbidden sets.Set[string]
}

// NewRecord returns an empty record.
func NewRecord() *Record {
	return &Record{Used: sets.New[Right](), Forbidden: sets.New[string]()}
}

// Note adds an audit event. Events of users that are not ServiceAccounts are ignored.
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
		return // a path such as /version, which every user may read
	}
	use := Right{
		Account: account, Verb: event.Verb, Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource,
		Name: event.ObjectRef.Name, Namespace: event.ObjectRef.Namespace,
	}
	if sub := event.ObjectRef.Subresource; sub != "" {
		use.Resource += "/" + sub
	}
	r.Used.Insert(use)
	// The API server also requires this permission when a patch creates the object, but logs no event for it.
	if use.Verb == "patch" && code == http.StatusCreated {
		use.Verb = "create"
		r.Used.Insert(use)
	}
	// Nor for the permission that the chart's policy for published addresses asks for.
	if use.Verb == "patch" && use.Resource == "services/status" {
		use.Verb = "publish"
		r.Used.Insert(use)
	}
}

func reason(event *auditv1.Event) string {
	if event.ResponseStatus != nil {
		return event.ResponseStatus.Message
	}
	return event.Annotations["authorization.k8s.io/reason"]
}
