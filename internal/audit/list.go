package audit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// each hands on all objects of a resource, page by page.
func each[List runtime.Object, T any](
	ctx context.Context, a *audit, resource string, list func(context.Context, metav1.ListOptions) (List, error), look func(*T),
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	pages.PageSize = pageSize
	seen := 0
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		is, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("got a %T", object)
		}
		look(is)
		if seen++; a.OnProgress != nil && seen%pageSize == 0 {
			a.OnProgress(resource, seen)
		}
		return nil
	})
	if err != nil {
		return unread(err, "list", resource)
	}
	return nil
}

// unread says what could not be read and, if it is a matter of rights, which are missing.
func unread(err error, verb, resource string) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s: %w", verb, resource, err)
	}
	return fmt.Errorf("must be allowed to %s %s; ask an administrator for that right: %w", verb, resource, err)
}
