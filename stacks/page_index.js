// Map a path of the web page to a file. CloudFront runs this function for each request of the page.

function handler(event) {
  var request = event.request;
  if (request.uri === "/page") {
    return { statusCode: 301, statusDescription: "Moved Permanently", headers: { location: { value: "/page/" } } };
  }
  if (request.uri === "/page/") request.uri = "/page/index.html";
  return request;
}
