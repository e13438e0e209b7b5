/** Prints what comes of a use, as JSON: `on-node.ts <use> <URL of an API>`. */
const [use = '', apiUrl = ''] = process.argv.slice(2)
const used: { use(apiUrl: string): Promise<unknown> } = await import(`./${use}.ts`)
console.log(JSON.stringify(await used.use(apiUrl)))
process.exit()

export {}
