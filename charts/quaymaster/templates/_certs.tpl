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

{{/*
The Issuers and Certificates from which cert-manager writes the serving certificate, each after those that it refers to. The
webhooks apply them, because cert-manager may be installed later. Administrators find them by the label.
*/}}
{{- define "quaymaster.certs.objects" -}}
{{- $prefix := include "quaymaster.certs.prefix" . -}}
{{- $labels := dict "app.kubernetes.io/managed-by" "quaymaster-webhook" -}}
{{- $issuer := .Values.certs.issuerRef -}}
{{- if not $issuer.name -}}
{{- $issuer = dict "kind" "Issuer" "name" (printf "%s-ca" $prefix) -}}
- apiVersion: cert-manager.io/v1
  kind: Issuer
  metadata: {namespace: {{ .Release.Namespace | quote }}, name: {{ $prefix }}-selfsigned, labels: {{ toJson $labels }}}
  spec:
    selfSigned: {}
- apiVersion: cert-manager.io/v1
  kind: Certificate
  metadata: {namespace: {{ .Release.Namespace | quote }}, name: {{ $prefix }}-ca, labels: {{ toJson $labels }}}
  spec:
    secretName: {{ $prefix }}-ca
    # Certificates name it as their issuer, and administrators find it in bundles.
    commonName: quaymaster.dev webhook authority
    isCA: true
    duration: 87600h0m0s
    # A renewed CA with the same key verifies what its predecessor signed, so that nothing breaks between its injection
    # into the webhook configurations and the next serving certificate.
    privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Never}
    usages: [cert sign]
    issuerRef: {group: cert-manager.io, kind: Issuer, name: {{ $prefix }}-selfsigned}
- apiVersion: cert-manager.io/v1
  kind: Issuer
  metadata: {namespace: {{ .Release.Namespace | quote }}, name: {{ $prefix }}-ca, labels: {{ toJson $labels }}}
  spec:
    ca: {secretName: {{ $prefix }}-ca}
{{- end }}
- apiVersion: cert-manager.io/v1
  kind: Certificate
  metadata: {namespace: {{ .Release.Namespace | quote }}, name: {{ $prefix }}, labels: {{ toJson $labels }}}
  spec:
    secretName: {{ include "quaymaster.certs.secret" . | quote }}
    dnsNames: [{{ include "quaymaster.fullname" . }}-webhook.{{ .Release.Namespace }}.svc]
    duration: 2160h0m0s
    renewBefore: 720h0m0s
    privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
    usages: [digital signature, server auth]
    issuerRef: {group: {{ $issuer.group | default "cert-manager.io" | quote }}, kind: {{ $issuer.kind | quote }}, name: {{ $issuer.name | quote }}}
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
{{- end }}
{{- if and (eq .mode "cert-manager") .certManager.managed }}
{{- range include "quaymaster.certs.objects" $ | fromYamlArray }}
- '--cert-manager-object={{ toJson . }}'
{{- end }}
{{- else if eq .mode "self-signed" }}
- --cert-hosts={{ include "quaymaster.fullname" $ }}-webhook.{{ $.Release.Namespace }}.svc
- --self-signed-validity={{ .selfSignedValidity }}
{{- end }}
{{- end -}}
{{- end -}}
