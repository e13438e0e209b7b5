/** What becomes of the uses if they are compiled to CommonJS: prints what comes of `use` as JSON. */
const [, , folder, use, apiUrl] = process.argv
require(`${folder}/${use}.js`)
  .use(apiUrl)
  .then((result) => {
    console.log(JSON.stringify(result))
    process.exit()
  })
