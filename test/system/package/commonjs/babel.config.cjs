/** Compiles what Jest requires to CommonJS. */
module.exports = { presets: [['@babel/preset-env', { targets: { node: 'current' } }]] }
