// Package notice records Events about stored objects that admission would deny.
package notice

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"quaymaster.dev/internal/visible"
)

const (
	// reasonPrefix is followed by the kind of the object, as in InvalidService.
	reasonPrefix = "Invalid"
	// component is the source of the Events.
	component = "quaymaster-audit"
	// longestMessage is how many bytes of an Event's message are written; the API takes 1024.
	longestMessage = 1000
	// longestName is how many bytes of the object's name are in the name of an Event, which the API limits to 253.
	longestName = 200
)

// Hash identifies the problems of an object: it changes if they do, or if another object has its name.
func Hash(of corev1.ObjectReference, problems string) uint64 {
	hash := fnv.New64a()
	fmt.Fprint(hash, of.UID, "/", problems)
	return hash.Sum64()
}

// Record creates the Event about the problems of an object, unless it exists: its name depends on them, so that it is
// written once by all who report them, until the API server deletes it. It returns nil, too, if the namespace no longer
// takes Events.
func Record(
	ctx context.Context, events typedcorev1.EventsGetter, of corev1.ObjectReference, problems string, now time.Time,
) error {
	at := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace,
			Name: fmt.Sprintf("%s.%016x", strings.TrimRight(of.Name[:min(len(of.Name), longestName)], "-."),
				Hash(of, problems)),
		},
		InvolvedObject: of, Type: corev1.EventTypeWarning, Reason: reasonPrefix + of.Kind,
		Message: visible.Shorten(problems, longestMessage),
		Source:  corev1.EventSource{Component: component}, ReportingController: component,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	_, err := events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
