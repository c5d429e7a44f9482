{{/*
The Secret of the serving certificate. Its name tells the mode: what the chart made for one mode must not be in the way of what
cert-manager makes for the other.
*/}}
{{- define "quaymaster.certs.secret" -}}
{{- $suffix := ternary "self-signed" "tls" (eq .Values.certs.mode "self-signed") -}}
{{- .Values.certs.secretName | default (printf "%s-webhook-%s" (include "quaymaster.fullname" .) $suffix) -}}
{{- end -}}

{{/* Begins the names of the objects that the webhooks apply for cert-manager; the serving Certificate has just this name. */}}
{{- define "quaymaster.certs.prefix" -}}
{{ include "quaymaster.fullname" . }}-webhook
{{- end -}}

{{/* The user's issuer as kind/name or group/kind/name, or nothing. */}}
{{- define "quaymaster.certs.issuerRef" -}}
{{- with .Values.certs.issuerRef -}}
{{- if .name -}}
{{- with .group }}{{ . }}/{{ end }}{{ .kind }}/{{ .name }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Certificate whose authority cert-manager puts into the webhook configurations, or nothing. */}}
{{- define "quaymaster.certs.injectCAFrom" -}}
{{- with .Values.certs -}}
{{- if .injectCAFrom -}}
{{ .injectCAFrom }}
{{- else if and (eq .mode "cert-manager") (not $.Values.webhook.caBundle) -}}
{{- $own := and .certManager.managed (not .issuerRef.name) -}}
{{ $.Release.Namespace }}/{{ include "quaymaster.certs.prefix" $ }}{{ if $own }}-ca{{ end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The flags of the webhooks that concern the certificate. */}}
{{- define "quaymaster.certs.args" -}}
{{- with .Values.certs -}}
- --cert-mode={{ .mode }}
{{- if eq .mode "files" }}
- --tls-cert-file=/certs/tls.crt
- --tls-private-key-file=/certs/tls.key
{{- else }}
- --namespace={{ $.Release.Namespace }}
- --cert-secret={{ include "quaymaster.certs.secret" $ }}
- --cert-hosts={{ include "quaymaster.fullname" $ }}-webhook.{{ $.Release.Namespace }}.svc
{{- end }}
{{- if eq .mode "cert-manager" }}
- --cert-name-prefix={{ include "quaymaster.certs.prefix" $ }}
- --cert-manager-managed={{ .certManager.managed }}
{{- with include "quaymaster.certs.issuerRef" $ }}
- --cert-issuer-ref={{ . }}
{{- end }}
{{- else if eq .mode "self-signed" }}
- --self-signed-validity={{ .selfSignedValidity }}
{{- end }}
{{- end -}}
{{- end -}}
