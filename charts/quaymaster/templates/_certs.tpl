{{/*
The Secret of the serving certificate. Its name depends on the mode: the Secret that the chart creates for one mode must not
conflict with the one that cert-manager creates for the other.
*/}}
{{- define "quaymaster.certs.secret" -}}
{{- $suffix := ternary "self-signed" "tls" (eq .Values.certs.mode "self-signed") -}}
{{- .Values.certs.secretName | default (printf "%s-webhook-%s" (include "quaymaster.fullname" .) $suffix) -}}
{{- end -}}

{{/* Prefix of the names of the cert-manager objects; the serving Certificate has exactly this name. */}}
{{- define "quaymaster.certs.prefix" -}}
{{ include "quaymaster.fullname" . }}-webhook
{{- end -}}

{{/* The user's issuer as kind/name or group/kind/name, or empty. */}}
{{- define "quaymaster.certs.issuerRef" -}}
{{- with .Values.certs.issuerRef -}}
{{- if .name -}}
{{- with .group }}{{ . }}/{{ end }}{{ .kind }}/{{ .name }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Certificate whose CA cert-manager injects into the webhook configurations, or empty. */}}
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

{{/* The certificate flags of the webhooks. */}}
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
