package doctor

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

const (
	// pageSize is the number of objects per list request.
	pageSize = 500
	// shown is how many objects with problems a result names.
	shown = 5
)

// each calls look for all objects that list returns, page by page.
func each[List runtime.Object, T any](
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

// firstOf returns the first lines, and how many more there are.
func firstOf(lines []string) []string {
	if len(lines) <= shown+1 {
		return lines
	}
	return append(lines[:shown:shown], fmt.Sprintf("and %d more", len(lines)-shown))
}
