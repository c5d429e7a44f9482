package audit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// pageSize is the number of objects per list request.
const pageSize = 500

// each calls look for all objects of a resource, which it lists page by page.
func each[List runtime.Object, T any](
	ctx context.Context, a *audit, resource string, list func(context.Context, metav1.ListOptions) (List, error),
	look func(*T),
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	pages.PageSize = pageSize
	seen := 0
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		is, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("unexpected type %T", object)
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

// unread returns the error for a resource that could not be read, with the missing permission if that is the reason.
func unread(err error, verb, resource string) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s: %w", verb, resource, err)
	}
	return fmt.Errorf("permission to %s %s is required; ask an administrator to grant it: %w", verb, resource, err)
}
