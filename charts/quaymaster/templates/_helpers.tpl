{{- define "quaymaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels of a role's pods: (list $ "webhook") */}}
{{- define "quaymaster.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "quaymaster.labels" -}}
{{ include "quaymaster.selectorLabels" . }}
{{- $root := index . 0 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{- define "quaymaster.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Pod Security's "restricted" asks of a container, and a read-only root. */}}
{{- define "quaymaster.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "quaymaster.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "quaymaster.tokenSecret" -}}
{{- .Values.cloud.tokenSecret.name | default (printf "%s-cloud-token" (include "quaymaster.fullname" .)) -}}
{{- end -}}

{{/* Whether the webhooks ask the cloud: "true" or nothing. */}}
{{- define "quaymaster.webhookAsksCloud" -}}
{{- $enabled := toString .Values.webhook.cloud.enabled -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") .Values.cloudController.enabled) -}}
true
{{- end -}}
{{- end -}}

{{/* Whether a pod of the chart needs the cloud config: "true" or nothing. */}}
{{- define "quaymaster.cloudIsUsed" -}}
{{- if .Values.cloudController.enabled -}}
true
{{- else if not .Values.webhook.url -}}
{{- include "quaymaster.webhookAsksCloud" . -}}
{{- end -}}
{{- end -}}

{{/* Values that contradict each other. */}}
{{- define "quaymaster.check" -}}
{{- with .Values.certs -}}
{{- if and (eq .mode "files") (not .secretName) (not $.Values.webhook.url) -}}
{{- fail "certs.secretName must name the Secret with tls.crt and tls.key when certs.mode is files" -}}
{{- end -}}
{{- if and (eq .mode "self-signed") (or .secretName .injectCAFrom $.Values.webhook.caBundle) -}}
{{- fail "certs.secretName, certs.injectCAFrom and webhook.caBundle must be empty when certs.mode is self-signed: it brings its own authority" -}}
{{- end -}}
{{- if and .injectCAFrom $.Values.webhook.caBundle -}}
{{- fail "certs.injectCAFrom and webhook.caBundle must not both be set: cert-manager would overwrite the bundle" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.cloudController.enabled .Values.cloudController.clusterCIDR (not .Values.cloud.network.routeTableID) -}}
{{- fail "cloud.network.routeTableID must name the table for the routes when cloudController.clusterCIDR is set" -}}
{{- end -}}
{{- end -}}

{{- define "quaymaster.cloudConfig" -}}
clusterID: {{ .Values.cloud.clusterID | quote }}
endpoint: {{ .Values.cloud.endpoint | quote }}
tokenFile: /var/run/secrets/quaymaster/token
loadBalancerClass: {{ .Values.loadBalancerClass | quote }}
network:
  {{- toYaml .Values.cloud.network | nindent 2 }}
ingressNodes:
  fallback: {{ .Values.cloud.ingressNodes.fallback }}
{{- end -}}
