package cloud

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/tool/doctor"
)

// Brakes checks that no brake stops work of the controllers.
func (c *Checks) Brakes(ctx context.Context) doctor.Result {
	if c.Config == nil {
		return doctor.Skipped("%s", c.NoConfig)
	}
	namespace, _ := c.Controllers.LeaseName()
	cm, err := c.API.CoreV1().ConfigMaps(namespace).Get(ctx, brakes.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return doctor.Passed("no brake is engaged")
	}
	if err != nil {
		return doctor.Unread("ConfigMap "+namespace+"/"+brakes.ConfigMap, err)
	}
	var engaged []string
	for _, name := range brakes.Names(cm) {
		message, since, isEngaged := brakes.Engaged(cm, name, c.Now())
		switch {
		case isEngaged && since.IsZero():
			engaged = append(engaged, name+": "+message)
		case isEngaged:
			engaged = append(engaged, fmt.Sprintf("%s for %s: %s", name, c.Now().Sub(since).Round(time.Second), message))
		}
	}
	if len(engaged) > 0 {
		return doctor.Warned("find out whether the cloud is right; if it is, run quayctl resume BRAKE; see docs/operations/brakes.md",
			"the controllers have stopped work that would do damage if it were wrong").With(engaged)
	}
	return doctor.Passed("no brake is engaged")
}
