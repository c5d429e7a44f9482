package doctor

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/brakes"
)

// engagedBrakes checks that no brake stops work of the controllers.
func (e *examination) engagedBrakes(ctx context.Context) Result {
	if e.config.config == nil {
		return skip("%s", e.config.missing)
	}
	namespace, _ := e.release.controllers.leaseName()
	cm, err := e.API.CoreV1().ConfigMaps(namespace).Get(ctx, brakes.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ok("no brake is engaged")
	}
	if err != nil {
		return unread("ConfigMap "+namespace+"/"+brakes.ConfigMap, err)
	}
	var engaged []string
	for _, name := range brakes.Names(cm) {
		message, since, isEngaged := brakes.Engaged(cm, name, e.now())
		switch {
		case isEngaged && since.IsZero():
			engaged = append(engaged, name+": "+message)
		case isEngaged:
			engaged = append(engaged, fmt.Sprintf("%s for %s: %s", name, e.now().Sub(since).Round(time.Second), message))
		}
	}
	if len(engaged) > 0 {
		return warn("find out whether the cloud is right; if it is, run quayctl resume BRAKE; see docs/operations/brakes.md",
			"the controllers have stopped work that would do damage if it were wrong").with(firstOf(engaged))
	}
	return ok("no brake is engaged")
}
