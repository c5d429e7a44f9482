package doctor

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// pageSize is the number of objects per list request.
const pageSize = 500

// Each calls look for all objects that list returns, page by page.
func Each[List runtime.Object, T any](
	ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (List, error),
	look func(*T),
) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) })
	pages.PageSize = pageSize
	return pages.EachListItem(ctx, options, func(object runtime.Object) error {
		if is, ok := object.(any).(*T); ok {
			look(is)
		}
		return nil
	})
}

// LastEvents returns the last Event about each object with these fields. Events only add to what objects say, so that
// it does not matter if they cannot be read.
func LastEvents(
	ctx context.Context, api kubernetes.Interface, namespace string, with fields.Set,
) map[types.UID]*corev1.Event {
	last := map[types.UID]*corev1.Event{}
	_ = Each(ctx, metav1.ListOptions{FieldSelector: with.String()}, api.CoreV1().Events(namespace).List,
		func(event *corev1.Event) {
			uid := event.InvolvedObject.UID
			if last[uid] == nil || lastSeen(event).After(lastSeen(last[uid])) {
				last[uid] = event
			}
		})
	return last
}

// lastSeen returns when an Event happened last; which of its fields say so depends on its author.
func lastSeen(event *corev1.Event) time.Time {
	at := event.CreationTimestamp.Time
	if event.LastTimestamp.After(at) {
		at = event.LastTimestamp.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}
