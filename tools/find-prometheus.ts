/** A real Prometheus, which reads the metrics in tests. */
import { findOrUnpack } from './unpack-package.ts'

export interface Prometheus {
  readonly server: string
  /** Checks configurations and alerts. */
  readonly promtool: string
}

const PROMETHEUS = {
  title: 'Prometheus',
  packageName: 'prometheus',
  programs: ['prometheus', 'promtool'],
  advice:
    'Install Prometheus 2.42 or newer: "apt-get install prometheus", "brew install prometheus", or see https://prometheus.io/download/',
}

/** @throws Error whose one line says what to install */
export async function findPrometheus(path?: string, cache?: string): Promise<Prometheus> {
  const [server = '', promtool = ''] = await findOrUnpack(PROMETHEUS, path, cache)
  return { server, promtool }
}
