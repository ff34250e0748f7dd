{{- define "neurald.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "neurald.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- /* The arguments that say who may connect. */}}
{{- define "neurald.security" -}}
{{- if and .Values.tls.secret (not .Values.auth.secret) }}
{{- fail "tls.secret needs auth.secret: without a token clients need a certificate, and probes have none" }}
{{- end }}
{{- if .Values.tls.secret -}}
- --tls=/etc/neurald/tls
{{- else -}}
# The network policy decides who may connect.
- --insecure
{{- end }}
{{- if .Values.auth.secret }}
- --auth-token-file=/etc/neurald/auth/token
{{- end }}
{{- end }}

{{- define "neurald.probes" -}}
startupProbe:
  httpGet: {{ include "neurald.health" (dict "path" "live" "port" .port "secret" .secret) }}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {{ include "neurald.health" (dict "path" "live" "port" .port "secret" .secret) }}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {{ include "neurald.health" (dict "path" "ready" "port" .port "secret" .secret) }}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{- define "neurald.health" -}}
{path: /v2/health/{{ .path }}, port: {{ .port }}{{ if .secret }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- define "neurald.mounts" -}}
- {name: temporary, mountPath: /tmp}
- {name: cache, mountPath: /var/cache/neurald}
- {name: drivers, mountPath: /var/cache/neurald-drivers}
- {name: state, mountPath: /var/lib/neurald}
{{- end }}

{{- define "neurald.volumes" -}}
- {name: temporary, emptyDir: {}}
- {name: cache, emptyDir: {}}
- {name: drivers, emptyDir: {}}
- {name: state, emptyDir: {}}
{{- end }}

{{- /* Root owns the files, and the group of the service, fsGroup, may read them. */}}
{{- define "neurald.secret-mounts" -}}
{{- if .Values.tls.secret }}
- {name: tls, mountPath: /etc/neurald/tls, readOnly: true}
{{- end }}
{{- if .Values.auth.secret }}
- {name: auth, mountPath: /etc/neurald/auth, readOnly: true}
{{- end }}
{{- end }}

{{- define "neurald.secret-volumes" -}}
{{- if .Values.tls.secret }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secret }}
    defaultMode: 0440
    items:
      - {key: tls.crt, path: cert.pem}
      - {key: tls.key, path: key.pem}
      - {key: ca.crt, path: ca.pem}
{{- end }}
{{- if .Values.auth.secret }}
- name: auth
  secret:
    secretName: {{ .Values.auth.secret }}
    defaultMode: 0440
    items:
      - {key: token, path: token}
{{- end }}
{{- end }}
