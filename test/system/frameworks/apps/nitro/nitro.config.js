export default { preset: 'node-server', serverDir: '.', compatibilityDate: '2026-01-01' }
